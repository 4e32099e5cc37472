package ops

import (
	"fmt"
	"testing"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// What happened in the last ten minutes is a condition, since the first of them in which it did, and not for longer.
func TestHour_TellsWhatHappenedAMomentAgo(t *testing.T) {
	t.Parallel()
	for minute, want := range map[int]string{0: "", 49: "", 50: "50 5", 59: "59 5"} {
		h := Hour{Series: Series{StepMS: 60_000, From: 60_000}}
		h.Dead, h.RejectsDropped = make([]int, 60), make([]int, 60)
		h.Dead[minute], h.Dead[20] = 2, h.Dead[20]+9
		h.Dead[59] += 3
		if minute < 50 {
			h.Dead[59] = 0
		}
		got := ""
		for _, c := range h.conditions() {
			if c.Word != CondDying || c.Level != LevelNote || c.Detail == "" {
				t.Errorf("%+v", c)
			}
			got = fmt.Sprint(int64(c.Since-60_000)/60_000, " ", c.Count)
		}
		if got != want {
			t.Errorf("minute %d: got %q, want %q", minute, got, want)
		}
	}
	h := Hour{Series: Series{StepMS: 60_000, From: 1, Flows: Flows[[]int]{RejectsDropped: []int{1}, Dead: []int{1}}}}
	all := WorstFirst(append(h.conditions(), Condition{Level: LevelStop}, Condition{Level: LevelHeld}))
	if all[0].Level != LevelStop || all[1].Word != CondRejectsDropped || all[2].Level != LevelHeld ||
		all[3].Word != CondDying || all[3].Since != message.Milli(1) {
		t.Errorf("%+v", all)
	}
}
