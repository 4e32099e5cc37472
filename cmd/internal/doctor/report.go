package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Status is the outcome of a check.
type Status string

// The ends of a check; the package comment says what each means.
const (
	OK      Status = "ok"
	Warn    Status = "warn"
	Fail    Status = "fail"
	Unknown Status = "unknown"
)

// Check is one finding.
type Check struct {
	// Group is the dependency: machine, redis, nats, zookeeper or journal.
	Group string `json:"group"`
	// Target is its server, or empty if the check concerns all of its servers.
	Target string `json:"target,omitempty"`
	// Name is stable, for programs.
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Found is the finding. Change says what to do about it, and is empty if there is nothing to do.
	Found  string `json:"found"`
	Change string `json:"change,omitempty"`
	// Err is the error behind the finding, if any. Its text may contain secrets, so it must not be shown.
	Err error `json:"-"`
}

// Report is what a run found, by group.
type Report struct {
	Checks []Check
}

// Count returns the number of checks with this outcome.
func (r Report) Count(s Status) int {
	n := 0
	for i := range r.Checks {
		if r.Checks[i].Status == s {
			n++
		}
	}
	return n
}

// Sick reports whether something must be changed: there is a failure or, if strict, a warning.
func (r Report) Sick(strict bool) bool {
	return r.Count(Fail) > 0 || strict && r.Count(Warn) > 0
}

// Summary returns the counts in words.
func (r Report) Summary() string {
	text := fmt.Sprintf("%d failed, %s, %d ok", r.Count(Fail), plural(r.Count(Warn), "warning"), r.Count(OK))
	if n := r.Count(Unknown); n > 0 {
		text += fmt.Sprintf(", %d could not be checked", n)
	}
	return text
}

// JSON returns the report for programs.
func (r Report) JSON() ([]byte, error) {
	text, err := json.Marshal(struct {
		Failed   int     `json:"failed"`
		Warnings int     `json:"warnings"`
		OK       int     `json:"ok"`
		Unknown  int     `json:"unknown"`
		Checks   []Check `json:"checks"`
	}{r.Count(Fail), r.Count(Warn), r.Count(OK), r.Count(Unknown), r.Checks})
	if err != nil {
		return nil, fmt.Errorf("encode the report: %w", err)
	}
	return text, nil
}

// Text returns the report for people: one line per check, with the change below it.
func (r Report) Text() string {
	width := 0
	for i := range r.Checks {
		width = max(width, len(r.Checks[i].Name))
	}
	marks := map[Status]string{OK: "ok  ", Warn: "WARN", Fail: "FAIL", Unknown: "?   "}
	var b strings.Builder
	head := ""
	for i := range r.Checks {
		c := &r.Checks[i]
		if now := strings.TrimSpace(c.Group + " " + c.Target); now != head {
			if head != "" {
				b.WriteByte('\n')
			}
			head = now
			b.WriteString(head + "\n")
		}
		fmt.Fprintf(&b, "  %s  %-*s  %s\n", marks[c.Status], width, c.Name, c.Found)
		if c.Change != "" {
			fmt.Fprintf(&b, "        %-*s  → %s\n", width, "", c.Change)
		}
	}
	b.WriteString("\n" + r.Summary() + "\n")
	return b.String()
}

// notes collects the findings about one target, from one goroutine.
type notes struct {
	group, target string
	hide          func(string) string
	checks        []Check
}

func (n *notes) add(status Status, name, found, change string, err error) {
	n.checks = append(n.checks, Check{
		Group: n.group, Target: n.target, Name: name, Status: status, Found: line(found),
		Change: line(change), Err: err,
	})
}

func (n *notes) ok(name, format string, args ...any) {
	n.add(OK, name, fmt.Sprintf(format, args...), "", nil)
}

func (n *notes) warn(name, found, change string) { n.add(Warn, name, found, change, nil) }

func (n *notes) fail(name, found, change string) { n.add(Fail, name, found, change, nil) }

// unknown adds what a server does not show.
func (n *notes) unknown(name, found, change string) { n.add(Unknown, name, found, change, nil) }

// broken adds a failure with its error.
func (n *notes) broken(name string, err error, change string) {
	n.add(Fail, name, n.hide(err.Error()), change, err)
}

// unchecked is unknown because of an error.
func (n *notes) unchecked(name string, err error, change string) {
	n.add(Unknown, name, "could not be checked: "+n.hide(err.Error()), change, err)
}

// line removes line breaks and control characters, which servers may send: they would break the layout or control the
// terminal.
func line(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return strings.Join(strings.Fields(s), " ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// shorten lists at most ten names.
func shorten(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// size formats bytes for people.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, units := float64(n), []string{"KiB", "MiB", "GiB", "TiB", "PiB"}
	for i, u := range units {
		if value /= unit; value < unit || i == len(units)-1 {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + " " + u
		}
	}
	return ""
}
