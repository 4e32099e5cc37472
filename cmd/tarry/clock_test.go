package main

import (
	"strings"
	"testing"
	"time"
)

func TestClock_ShowsLocalTimeAndHowFarOffItIs(t *testing.T) {
	t.Parallel()
	c := clock{func() time.Time { return someNow }, time.FixedZone("", 5*3600+1800)}
	for text, want := range map[string]string{
		"2030-01-31T08:00:00Z":      "2030-01-31T13:30:00.000+05:30 (in 59m)",
		"2030-01-31T07:01:00.4Z":    "2030-01-31T12:31:00.400+05:30 (now)",
		"2030-01-31T07:01:59.6Z":    "2030-01-31T12:31:59.600+05:30 (in 1m)",
		"2030-01-31T07:00:29.5Z":    "2030-01-31T12:30:29.500+05:30 (31s ago)",
		"2030-01-31T06:57:45Z":      "2030-01-31T12:27:45.000+05:30 (3m ago)",
		"2030-01-31T12:13:00Z":      "2030-01-31T17:43:00.000+05:30 (in 5h12m)",
		"2030-02-01T07:00:45Z":      "2030-02-01T12:30:45.000+05:30 (in 1d)",
		"2030-02-03T11:10:00Z":      "2030-02-03T16:40:00.000+05:30 (in 3d4h)",
		"2030-02-10T06:50:00Z":      "2030-02-10T12:20:00.000+05:30 (in 10d)",
		"2029-01-31T07:00:00+02:00": "2029-01-31T10:30:00.000+05:30 (365d ago)",
		"":                          "",
		"soon":                      "soon",
	} {
		if got := c.at(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestClock_StandsBehindEveryCommand: people see their own time, programs UTC, and what is shown may be typed.
func TestClock_StandsBehindEveryCommand(t *testing.T) {
	t.Parallel()
	cfg := keeping(recorded{many: 3})
	cfg.Rejects = refused{}
	environ := serve(t, cfg)
	zone := time.FixedZone("", -9*3600)
	shown := func(args ...string) string {
		t.Helper()
		var out, errOut printed
		o := outside{in: strings.NewReader(""), out: &out, err: &errOut, environ: environ, now: time.Now, zone: zone}
		if code := run(t.Context(), args, o); code != exitDone {
			t.Fatalf("%v: %d, %s", args, code, errOut.String())
		}
		return out.String()
	}
	for _, command := range []string{
		"push a --at 2030-01-31T08:00:00Z", "get order-7131", "get binary", "list", "history requeued",
		"reschedule order-7131 --delay 1h",
		"dead list", "dead requeue order-7131", "rejected list", "rejected show 3", "topics", "topics orders.remind",
		"forecast --until 12m", "cluster",
	} {
		args := strings.Fields(command)
		if text := shown(args...); !strings.Contains(text, "-09:00 (") || strings.Contains(text, "Z ") {
			t.Errorf("%s: %s", command, text)
		}
		if text := shown(append(args, "--json")...); strings.Contains(text, "-09:00") {
			t.Errorf("%s --json: %s", command, text)
		}
	}
	shown("list", "--due-from", "2030-01-30T23:00:00-09:00")
}
