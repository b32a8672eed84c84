package wire

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// StartTime is the start time of a process in clock ticks since boot, field 22 of /proc/PID/stat:
// with the pid it identifies the process.
func StartTime(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The command, field 2, may hold spaces and parentheses: count from the last ")".
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const startTime = 22 - 3
	if len(fields) <= startTime {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields after the command", pid, len(fields))
	}
	return strconv.ParseUint(string(fields[startTime]), 10, 64)
}
