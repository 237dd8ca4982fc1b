package bench

import (
	"bufio"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Machine is what a measurement ran on: figures of two machines, or of one that was busy, are not to be compared.
type Machine struct {
	OS        string  `json:"os"`
	Arch      string  `json:"arch"`
	CPU       string  `json:"cpu"` // empty where it cannot be told
	Cores     int     `json:"cores"`
	MaxProcs  int     `json:"maxProcs"` // cores that a Go program uses at once
	GoVersion string  `json:"go"`
	Load      float64 `json:"load"` // processes that wanted to run, on average over the minute before; -1 where it cannot be told
}

// ThisMachine describes the machine that the program runs on, and how busy it is at the moment.
func ThisMachine() Machine {
	return Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPU: processor(), Cores: runtime.NumCPU(),
		MaxProcs: runtime.GOMAXPROCS(0), GoVersion: runtime.Version(), Load: LoadAverage()}
}

// LoadAverage is the average number of processes that wanted to run in the last minute; -1 where it cannot be told.
func LoadAverage() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return -1
	}
	first, _, _ := strings.Cut(string(b), " ")
	v, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return -1
	}
	return v
}

// processor is the name of the processor, as Linux tells it.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if name, value, ok := strings.Cut(in.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
