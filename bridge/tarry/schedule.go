package tarry

import (
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// ADR-51, the schedules of NATS itself (nats-server 2.12 and later).
const (
	headerSchedule       = "Nats-Schedule"
	headerScheduleTarget = "Nats-Schedule-Target"
)

// translate turns "Nats-Schedule: @at <RFC 3339>" into Tarry-At and the topic into Nats-Schedule-Target, so that a
// producer of NATS's own schedules moves over as it is. There the message stands on a subject of the schedule's own; it
// has no meaning here.
func translate(h nats.Header, topic *string) (scheduled bool, err error) {
	var names []string
	for name, values := range h {
		if len(name) >= len(headerSchedule) && strings.EqualFold(name[:len(headerSchedule)], headerSchedule) &&
			len(values) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names) // the same answer every time
	var when, target string
	for _, name := range names {
		values := h[name]
		delete(h, name)
		var into *string
		switch {
		case strings.EqualFold(name, headerSchedule):
			into = &when
		case strings.EqualFold(name, headerScheduleTarget):
			into = &target
		default:
			return false, &Error{Word: wire.WordUnsupported, Field: name,
				Detail: "is not supported; a schedule here has a time and a target"}
		}
		if len(values) > 1 || *into != "" {
			return false, &Error{Word: wire.WordRepeated, Field: name, Detail: "is given more than once"}
		}
		*into = strings.Trim(values[0], " \t")
	}
	if len(names) == 0 {
		return false, nil
	}
	at, found := strings.CutPrefix(when, "@at ")
	switch {
	case when == "":
		return false, &Error{Word: wire.WordNoDelay, Field: headerSchedule, Detail: "is empty; it needs @at and a time"}
	case !found:
		return false, &Error{Word: wire.WordUnsupported, Field: headerSchedule,
			Detail: "other than @at <RFC 3339> (@every, cron) is not supported yet"}
	case target == "":
		return false, &Error{Word: wire.WordTopic, Field: headerScheduleTarget,
			Detail: "is missing; it names the subject on which the message is due"}
	case has(h, HeaderDelay) || has(h, HeaderAt):
		return false, &Error{Word: wire.WordDelayAndAt, Field: headerSchedule,
			Detail: "and a Tarry tag are both given; a push takes one of them"}
	}
	h[HeaderAt], *topic = []string{at}, target
	return true, nil
}
