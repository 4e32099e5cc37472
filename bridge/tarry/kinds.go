package tarry

import (
	"maps"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"
)

// optionKinds remembers which publish options schedule a message, so that an untagged publish with options pays a
// look-up and not a reading of its options. Two options of one code address come from the same constructor of nats.go
// (jetstream.WithMsgID, say) and differ only in their value; nobody else can write one.
type optionKinds struct {
	read  func(opts []jetstream.PublishOpt) (schedules bool, err error)
	known atomic.Pointer[map[uintptr]bool] // replaced, never changed

	learn sync.Mutex
}

// schedule reports whether one of the options makes the message a schedule. Of a wrong option it says no: the publish
// itself will say what is wrong.
func (k *optionKinds) schedule(opts []jetstream.PublishOpt) bool {
	for i, o := range opts {
		if o == nil {
			return false
		}
		var schedules, found bool
		code := reflect.ValueOf(o).Pointer()
		if m := k.known.Load(); m != nil {
			schedules, found = (*m)[code]
		}
		if !found {
			schedules = k.meet(code, opts[i:i+1])
		}
		if schedules {
			return true
		}
	}
	return false
}

// meet reads an option of a kind that was not seen before.
func (k *optionKinds) meet(code uintptr, one []jetstream.PublishOpt) bool {
	schedules, err := k.read(one)
	if err != nil {
		return false
	}
	k.learn.Lock()
	defer k.learn.Unlock()
	next := map[uintptr]bool{code: schedules}
	if m := k.known.Load(); m != nil {
		maps.Copy(next, *m)
	}
	k.known.Store(&next)
	return schedules
}
