package bench

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// ticksASecond is the unit of /proc/stat, USER_HZ: 100 on every machine that Go runs on.
const ticksASecond = 100

// processorTime tells the processor time used so far, from the system's own counts; false where it does not tell.
func processorTime() (p Processor, ok bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return p, false
	}
	p.Own = float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return p, false
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return p, false
	}
	// user, nice, system, idle, waiting for disks, interrupts, soft interrupts, taken by other machines on the same host
	for i, f := range fields[1:9] {
		n, err := strconv.ParseFloat(string(f), 64)
		if err != nil {
			return p, false
		}
		switch n /= ticksASecond; i {
		case 3, 4:
			p.Idle += n
		case 7:
			p.Stolen += n
		default:
			p.Busy += n
		}
	}
	return p, true
}
