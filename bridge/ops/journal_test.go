package ops_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
)

func TestRestore_TakesWhatIsLeftOutAsTheDefault(t *testing.T) {
	t.Parallel()
	no, yes := new(false), new(true)
	for text, want := range map[string]ops.Restore{
		"":                              {},
		" \n":                           {},
		"{}":                            {},
		`{"overdue":null,"topic":null}`: {},
		`{"overdue":false}`:             {Overdue: no},
		`{"overdue":true,"topic":"a.b","dry_run":true,"rate":1000000}`: {Overdue: yes, Topic: "a.b", DryRun: true,
			Rate: 1_000_000},
		`{"rate":0,"dry_run":false}`: {},
		`{"topic":"a.*.>"}`:          {Topic: "a.*.>"},
	} {
		if got, err := onNATS("restore", text); err != nil || !reflect.DeepEqual(got, &want) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string][2]string{
		`{"rate":1000001}`:                  {"invalid_rate", "rate"},
		`{"rate":99999999999999999999}`:     {"invalid_rate", "rate"},
		`{"rate":[1]}`:                      {"invalid_rate", "rate"},
		`{"overdue":"x"}`:                   {"invalid_overdue", "overdue"},
		`{"dry_run":{}}`:                    {"invalid_dry_run", "dry_run"},
		`{"topic":"a..b"}`:                  {wire.WordTopic, "topic"},
		`{"topic":"a.>.b"}`:                 {wire.WordTopic, "topic"},
		`{"dry_run":true,"dry_run":true}`:   {ops.WordRepeatedField, "dry_run"},
		`{"since":"1h"}`:                    {ops.WordUnknownField, `"since"`},
		`{"dry_run":tru}`:                   {ops.WordJSON, "request"},
		`{"dry_run":falsetrue}`:             {ops.WordJSON, "request"},
		`null`:                              {ops.WordJSON, "request"},
		`{"overdue":"x","rate":-1,"a":true`: {ops.WordJSON, "request"},
	} {
		_, err := onNATS("restore", text)
		wantRefusal(t, err, want[0], want[1])
	}
}

func TestVerifyAndRestoreOne_ReadTheirSwitches(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ops.Verify{"": {}, "{}": {}, `{"repair":false}`: {},
		`{"repair":true}`: {Repair: true}, `{"revive":true,"repair":false}`: {Revive: true}} {
		if got, err := onNATS("verify", text); err != nil || *got.(*ops.Verify) != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	_, err := onNATS("verify", `{"repair":"true"}`)
	wantRefusal(t, err, "invalid_repair", "repair")
	_, err = onNATS("verify", `{"revive":1}`)
	wantRefusal(t, err, "invalid_revive", "revive")
	_, err = onNATS("verify", `{"repair":true,"x":1}`)
	wantRefusal(t, err, ops.WordUnknownField, `"x"`)
	if got, err := onNATS("restore_one", `{"id":"a","dry_run":true}`); err != nil || !got.(*ops.RestoreOne).DryRun {
		t.Errorf("got %v, %v", got, err)
	}
	_, err = onNATS("restore_one", `{"id":"a","dry_run":1}`)
	wantRefusal(t, err, "invalid_dry_run", "dry_run")
}

func TestRedeliver_NeedsSince(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1896076800000).UTC()
	if got, err := onNATS("redeliver", `{"since":"1h","topic":"orders.>"}`); err != nil ||
		got.(*ops.Redeliver).Topic != "orders.>" {
		t.Errorf("got %+v, %v", got, err)
	}
	for text, want := range map[string]time.Time{
		`{"since":"90m"}`:                  now.Add(-90 * time.Minute),
		`{"since":"1d"}`:                   now.Add(-24 * time.Hour),
		`{"since":"0s"}`:                   now,
		`{"since":1896076800000}`:          now,
		`{"since":"1896076800000"}`:        now,
		`{"since":"2030-01-31T08:00:00Z"}`: now,
	} {
		if got, err := onNATS("redeliver", text); err != nil || !got.(*ops.Redeliver).Since.Ago(now).Equal(want) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "{}", `{"since":null}`, `{"since":""}`, `{"since":"x"}`, `{"since":"-1h"}`,
		`{"since":-5}`, `{"since":1e12}`, `{"since":5}`, `{"since":[]}`} {
		_, err := onNATS("redeliver", text)
		wantRefusal(t, err, "invalid_since", "since")
	}
}

func TestParseWhen_TellsTimesFromDurations(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1896076800000).UTC()
	for text, want := range map[string]time.Time{
		"20m": now.Add(20 * time.Minute), "1d12h": now.Add(36 * time.Hour), "1500ms": now.Add(1500 * time.Millisecond),
		"1896076800001": now.Add(time.Millisecond), "2030-01-31T09:00:01+01:00": now.Add(time.Second),
	} {
		if got, err := ops.ParseWhen(text, "until"); err != nil || !got.Ahead(now).Equal(want) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "soon", "20", "-20m", "2030-01-31", "08:00", "99999d", "1h-5m"} {
		_, err := ops.ParseWhen(text, "until")
		wantRefusal(t, err, "invalid_until", "until")
	}
}
