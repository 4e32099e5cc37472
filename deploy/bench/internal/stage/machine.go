package stage

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// Machine is where a run took place and with which programs.
type Machine struct {
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	MemoryGB float64           `json:"memory_gb"`
	Kernel   string            `json:"kernel"`
	System   string            `json:"system"`
	Load     float64           `json:"load"` // the average over the minute before the run
	Versions map[string]string `json:"versions"`
}

// ThisMachine looks around. What cannot be read stays empty: it is a note beside the figures.
func ThisMachine() Machine {
	m := Machine{
		CPU: "unknown CPU", Cores: runtime.NumCPU(), Kernel: kernel(), System: runtime.GOOS,
		Versions: map[string]string{"go": strings.TrimPrefix(runtime.Version(), "go")},
	}
	if name := lineValue("/proc/cpuinfo", "model name"); name != "" {
		m.CPU = name
	}
	if kb, err := strconv.ParseFloat(
		strings.TrimSuffix(lineValue("/proc/meminfo", "MemTotal"), " kB"), 64); err == nil {
		m.MemoryGB = float64(int(kb/1024/1024*10+0.5)) / 10
	}
	if name := strings.Trim(lineValue("/etc/os-release", "PRETTY_NAME"), `"`); name != "" {
		m.System = name
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		one, _, _ := strings.Cut(string(text), " ")
		if load, err := strconv.ParseFloat(one, 64); err == nil {
			m.Load = load
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			switch dep.Path {
			case "github.com/nats-io/nats.go":
				m.Versions["nats.go"] = dep.Version
			case "github.com/redis/go-redis/v9":
				m.Versions["go-redis"] = dep.Version
			}
		}
	}
	return m
}

// Add takes what servers said about themselves.
func (m *Machine) Add(versions map[string]string) { maps.Copy(m.Versions, versions) }

// String is one sentence about the machine.
func (m Machine) String() string {
	return fmt.Sprintf("%d cores of %s, %.0f GiB, %s, Linux %s", m.Cores, m.CPU, m.MemoryGB, m.System, m.Kernel)
}

// lineValue returns what follows a name and a colon or equals sign, on the first such line.
func lineValue(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(text) {
		key, value, ok := strings.Cut(strings.Replace(string(line), "=", ":", 1), ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func kernel() string {
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		return "unknown"
	}
	var b strings.Builder
	for _, c := range u.Release {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}
