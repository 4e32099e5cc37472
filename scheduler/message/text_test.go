package message_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler/message"
)

func TestText_IsWhatAnswersHave(t *testing.T) {
	t.Parallel()
	type answer struct {
		At    message.Milli `json:"at"`
		State message.State `json:"state"`
		Kind  message.Kind  `json:"kind"`
	}
	words := append(message.States(), message.StateReady, message.StateNone)
	kinds := 0
	for kind := message.Kind(0); kind.Valid(); kind++ {
		kinds++
	}
	for i := range 10_000 {
		a := answer{message.Milli(i*i*i) * 251, words[i%len(words)], message.Kind(i % kinds)}
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"at":"` + ops.FormatTime(int64(a.At)) + `","state":"` + a.State.String() + `","kind":"` + a.Kind.String() +
			`"}`
		if string(text) != want {
			t.Fatalf("%s, want %s", text, want)
		}
		var again answer
		if err := json.Unmarshal(text, &again); err != nil || again != a {
			t.Fatalf("%s is read as %+v: %v", text, again, err)
		}
	}
}

func TestText_OfALaterVersion(t *testing.T) {
	t.Parallel()
	state, kind := message.StateWaiting, message.KindMerged
	if err := state.UnmarshalText([]byte("frozen")); err != nil || state.Valid() {
		t.Errorf("state %d %v", state, err)
	}
	if err := kind.UnmarshalText([]byte("frozen")); err != nil || kind.Valid() {
		t.Errorf("kind %d %v", kind, err)
	}
}

func FuzzMilli_UnmarshalText(f *testing.F) {
	f.Add("2030-01-31T08:00:00.003Z")
	f.Add("2030-01-31T09:00:00.0000001+01:00")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		var m, again message.Milli
		if m.UnmarshalText([]byte(text)) != nil {
			return
		}
		if parsed, err := time.Parse(time.RFC3339, text); err == nil && (m.Time().Before(parsed) ||
			m.Time().Sub(parsed) >= time.Millisecond) {
			t.Errorf("%q is read as %s", text, m.Time())
		}
		own, err := m.MarshalText()
		if err == nil {
			err = again.UnmarshalText(own)
		}
		if err != nil || again != m {
			t.Errorf("%q is written as %q and read as %d: %v", text, own, again, err)
		}
	})
}
