package ops_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
)

func TestRejectOrder_ReadsWhichAndWhatIsMended(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ops.RejectOrder{
		`{"sequence":12}`:       {Sequence: 12},
		`{"sequences":[12, 7]}`: {Sequences: []uint64{12, 7}},
		`{"sequence":18446744073709551615,"topic":"orders.remind","set":{"Tarry-Delay":"20m","X":""},` +
			`"drop":["Tarry-Dealy"]}`: {
			Sequence: 1<<64 - 1, Topic: "orders.remind",
			Set: []wire.Header{{Name: "Tarry-Delay", Value: "20m"}, {Name: "X"}}, Drop: []string{"Tarry-Dealy"}},
	} {
		if got, err := onNATS("rejects_requeue", text); err != nil || !reflect.DeepEqual(got, &want) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
}

func TestRejectOrder_NamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	many := strings.TrimSuffix(strings.Repeat("1,", ops.MaxIDs+1), ",")
	var set []string
	for i := range 101 {
		set = append(set, fmt.Sprintf(`"X%d":""`, i))
	}
	for text, want := range map[string][2]string{
		``:                                  {"invalid_sequence", "sequence"},
		`{"sequence":0}`:                    {"invalid_sequence", "sequence"},
		`{"sequence":-1}`:                   {"invalid_sequence", "sequence"},
		`{"sequence":1.5}`:                  {"invalid_sequence", "sequence"},
		`{"sequence":true}`:                 {"invalid_sequence", "sequence"},
		`{"sequences":[]}`:                  {"invalid_sequence", "sequence"},
		`{"sequences":1}`:                   {"invalid_sequences", "sequences"},
		`{"sequences":[0]}`:                 {"invalid_sequences", "sequences"},
		`{"sequences":[` + many + `]}`:      {wire.WordTooLarge, "sequences"},
		`{"sequence":1,"sequences":[2]}`:    {"invalid_sequences", "sequences"},
		`{"sequence":1,"topic":"orders.>"}`: {wire.WordTopic, "topic"},
		`{"sequence":1,"set":[]}`:           {"invalid_set", "set"},
		`{"sequence":1,"set":{"a b":"1"}}`:  {wire.WordHeader, "set"},
		`{"sequence":1,"set":{"A":null}}`:   {wire.WordHeader, "A"},
		`{"sequence":1,"set":{"A":"\n"}}`:   {wire.WordHeader, "A"},
		`{"sequence":1,"set":{` + strings.Join(set, ",") + `}}`: {wire.WordTooLarge, "set"},
		`{"sequence":1,"drop":"A"}`:                             {"invalid_drop", "drop"},
		`{"sequence":1,"drop":[1]}`:                             {"invalid_drop", "drop"},
		`{"sequence":1,"delay":"1m"}`:                           {ops.WordUnknownField, `"delay"`},
		`{"sequence":1,"sequence":2}`:                           {ops.WordRepeatedField, "sequence"},
		`{"sequence":1`:                                         {ops.WordJSON, "request"},
	} {
		_, err := onNATS("rejects_requeue", text)
		wantRefusal(t, err, want[0], want[1])
	}
}

func TestRejectOrder_ChangesHeadersWithoutCase(t *testing.T) {
	t.Parallel()
	o := ops.RejectOrder{Set: []wire.Header{{Name: "Tarry-Delay", Value: "20m"}}, Drop: []string{"tarry-dealy"}}
	sent := map[string][]string{"TARRY-DELAY": {"soon"}, "Tarry-Dealy": {"1m"}, "X": {"1", "2"}}
	got := o.Change(sent)
	if want := map[string][]string{"Tarry-Delay": {"20m"}, "X": {"1", "2"}}; !maps.EqualFunc(got, want, slices.Equal) ||
		len(sent) != 3 {
		t.Errorf("got %v of %v", got, sent)
	}
}
