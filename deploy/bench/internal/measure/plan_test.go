package measure

import (
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
)

func TestADrainIsInvalidUnlessAllWasLoadedInTime(t *testing.T) {
	t.Parallel()
	p := Full()
	began := time.Now()
	due := began.Add(10 * time.Second)
	for name, c := range map[string]struct {
		sent load.Sent
		want bool
	}{
		"in time":   {load.Sent{Count: p.Messages, Began: began, Elapsed: 9700 * time.Millisecond}, true},
		"too late":  {load.Sent{Count: p.Messages, Began: began, Elapsed: 9701 * time.Millisecond}, false},
		"cut short": {load.Sent{Count: p.Messages - 1, Began: began, Elapsed: time.Second}, false},
	} {
		if fault, ok := p.loaded(c.sent, due); ok != c.want ||
			ok == strings.Contains(fault, "of 200000 messages were loaded in") {
			t.Errorf("%s: %q, %t", name, fault, ok)
		}
	}
}

func TestALatenessTestIsInvalidWhenItsPaceWasNotKept(t *testing.T) {
	t.Parallel()
	p := Full()
	for elapsed, want := range map[time.Duration]bool{20 * time.Second: true, 21200 * time.Millisecond: true,
		21300 * time.Millisecond: false} {
		if fault, ok := p.paced(load.Sent{Count: 100, Elapsed: elapsed}); ok != want {
			t.Errorf("%s: %q, %t", elapsed, fault, ok)
		}
	}
}

func TestLoadingHasTimeForAMachineThatTakesTwelveThousandASecond(t *testing.T) {
	t.Parallel()
	for _, p := range []Plan{Full(), Quick()} {
		took := time.Duration(float64(p.Messages) / 12_000 * float64(time.Second))
		if spare := p.lead() - took; spare < time.Second {
			t.Errorf("of %s, %s are left", p.lead(), spare)
		}
	}
}

func TestADrainWithAJournalIsDueBeforeTheAuditOrWellAfterIt(t *testing.T) {
	t.Parallel()
	for messages, want := range map[int]time.Duration{
		3_000: 2 * time.Second, 21_000: 5 * time.Second, 22_000: 18 * time.Second, 99_000: 18 * time.Second,
		198_000: 34500 * time.Millisecond,
	} {
		if got := (Plan{Messages: messages}).journalLead(); got != want {
			t.Errorf("with %d messages it is %s ahead, want %s", messages, got, want)
		}
	}
}
