package site

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

// line is one line of an instance's log.
type line struct {
	Time     time.Time
	Level    string
	Message  string
	Instance string
	Ns       string
	Term     uint64
	Why      string
	Cause    string
}

// Lines reads a log; what is not JSON, as Go's own report of a crash, fails the test.
func Lines(t *testing.T, i *Instance) []line {
	t.Helper()
	var read []line
	for raw := range bytes.Lines(i.History()) {
		var l line
		if err := json.Unmarshal(raw, &l); err != nil {
			t.Errorf("the log of %s: %v: %.200q", i.Name, err, raw)
			continue
		}
		read = append(read, l)
	}
	return read
}

// Won returns when an instance began to lead under the first term above the given one.
func (s *Site) Won(t *testing.T, above uint64) time.Time {
	t.Helper()
	var first leading
	for _, l := range Leaderships(t, s.Instances) {
		if l.term > above && (first.term == 0 || l.term < first.term) {
			first = l
		}
	}
	return first.at
}

// Leaderships returns those in the logs.
func Leaderships(t *testing.T, among []*Instance) []leading {
	t.Helper()
	var found []leading
	for _, i := range among {
		for _, l := range Lines(t, i) {
			if l.Message == "leading" {
				found = append(found, leading{l.Instance, l.Term, l.Time})
			}
		}
	}
	if len(found) == 0 {
		t.Error("no log has a leadership")
	}
	return found
}
