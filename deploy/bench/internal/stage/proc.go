package stage

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/PID/stat. The kernel shows 1/100 s on every architecture Go runs on.
const tick = 10 * time.Millisecond

// CPU is the processor time that a process has used so far, all threads, user and system.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	return parseCPU(string(text))
}

// parseCPU reads utime and stime, fields 14 and 15. The name in field 2 may hold blanks and brackets; its end is the
// last closing bracket.
func parseCPU(stat string) (time.Duration, error) {
	_, rest, ok := cutLast(stat, ")")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, fmt.Errorf("read processor time: %q has too few fields", stat)
	}
	var sum time.Duration
	for _, text := range fields[11:13] {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read processor time: %w", err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// RSS is the memory of a process that is in RAM, in bytes.
func RSS(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("read memory: %q has too few fields", text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// Files is how many files and sockets a process has open.
func Files(pid int) (int64, error) {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0, fmt.Errorf("count files: %w", err)
	}
	return int64(len(open)), nil
}

// Process is one of a test's servers, or this process, as far as its cost goes.
type Process struct {
	Name string
	Pid  int
}

// Cost is the processor time that some processes used between two moments.
type Cost struct {
	processes []Process
	from      map[string]time.Duration
	began     time.Time
}

// Watch begins to count.
func Watch(processes ...Process) (*Cost, error) {
	c := &Cost{processes: processes, from: make(map[string]time.Duration), began: time.Now()}
	for _, p := range processes {
		used, err := CPU(p.Pid)
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", p.Name, err)
		}
		c.from[p.Name] = used
	}
	return c, nil
}

// Used is the processor time of each process since Watch, and the time that has passed.
func (c *Cost) Used() (used map[string]time.Duration, elapsed time.Duration, err error) {
	used = make(map[string]time.Duration)
	for _, p := range c.processes {
		now, err := CPU(p.Pid)
		if err != nil {
			return nil, 0, fmt.Errorf("watch %s: %w", p.Name, err)
		}
		used[p.Name] = now - c.from[p.Name]
	}
	return used, time.Since(c.began), nil
}
