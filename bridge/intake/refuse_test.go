package intake

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

func TestRejectLog_WarnsOnceASecondAndCountsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := rejectLog{log: zerolog.New(&out).Level(zerolog.WarnLevel)}
		said := func() string {
			defer out.Reset()
			return out.String()
		}
		for n := range uint64(4) {
			l.say(time.Now(), "delayed.a", "invalid_delay", n)
		}
		if got := said(); strings.Count(got, "\n") != 1 ||
			!strings.Contains(got, `"subject":"delayed.a","reason":"invalid_delay","sequence":0,`) ||
			strings.Contains(got, "left_out") {
			t.Errorf("got %s", got)
		}
		time.Sleep(time.Second) // of the bubble
		l.say(time.Now(), "delayed.a", "too_far", 4)
		if got := said(); !strings.Contains(got, `"reason":"too_far"`) || !strings.Contains(got, `"left_out":3`) {
			t.Errorf("got %s", got)
		}
		time.Sleep(time.Second) // of the bubble
		l.say(time.Now(), "delayed.a", "too_far", 5)
		if got := said(); !strings.Contains(got, `"sequence":5`) || strings.Contains(got, "left_out") {
			t.Errorf("got %s", got)
		}
	})
}
