package main

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// processStart is when this process began, before the Go runtime did: the budget counts from there.
// Where the kernel does not say, and for a process that ran another program first, it is now.
func processStart() time.Time {
	now := time.Now()
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return now
	}
	var boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return now
	}
	began, ok := startTime(stat)
	if age := time.Duration(boot.Nano()) - began; ok && age >= 0 && age < time.Minute {
		return now.Add(-age)
	}
	return now
}

// startTime reads field 22 of /proc/PID/stat, the start after boot in ticks of 10 ms (USER_HZ is 100 on
// every Linux that Go runs on). Field 2, the command, may hold blanks and brackets.
func startTime(stat []byte) (time.Duration, bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // from field 3
	if len(fields) < 20 {
		return 0, false
	}
	ticks, err := strconv.ParseInt(string(fields[19]), 10, 64)
	return time.Duration(ticks) * 10 * time.Millisecond, err == nil
}
