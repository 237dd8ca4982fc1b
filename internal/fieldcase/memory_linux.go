package fieldcase

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
)

// peakMemory is the most memory in bytes that this process has had so far, but for the parts of its binary.
func peakMemory() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	var peak, file int64
	for lines := bufio.NewScanner(bytes.NewReader(status)); lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "VmHWM: %d kB", &peak) // no match leaves it alone
		_, _ = fmt.Sscanf(lines.Text(), "RssFile: %d kB", &file)
	}
	if peak == 0 {
		return 0, errors.New("the kernel does not tell the peak of the memory")
	}
	return (peak - file) << 10, nil
}
