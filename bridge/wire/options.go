package wire

import (
	"strconv"
	"time"
)

// Options returns the part of a push's content that is neither topic, headers nor body, in one fixed form. Two pushes
// with one name are the same push only if their options are equal. A delay is compared as text, because its due time
// moves each time the push is repeated; a time is compared as a moment. The id, the key and the attempt make up the
// name itself, and the reason of a consumer's failure is not part of the request.
func (p *Push) Options() string {
	b := make([]byte, 0, 64)
	switch {
	case p.HasAt:
		b = strconv.AppendInt(append(b, "at="...), p.At.UnixMilli(), 10)
	case p.DelayText == "":
		b = append(b, "by_retry"...)
	default:
		b = append(append(b, "delay="...), p.DelayText...)
	}
	if p.Priority > 0 {
		b = strconv.AppendUint(append(b, " priority="...), uint64(p.Priority), 10)
	}
	if p.TTL > 0 {
		b = strconv.AppendInt(append(b, " ttl="...), int64(p.TTL/time.Millisecond), 10)
	}
	if p.OnDuplicate != "" && p.OnDuplicate != Reject {
		b = append(append(b, " on_duplicate="...), p.OnDuplicate...)
	}
	if p.Deliver != "" {
		b = append(append(b, " deliver="...), p.Deliver...)
	}
	if p.MaxWait > 0 {
		b = strconv.AppendInt(append(b, " max_wait="...), int64(p.MaxWait/time.Millisecond), 10)
	}
	if !p.Retry.Empty() {
		b = append(append(b, " retry="...), p.Retry.String()...)
	}
	return string(b)
}
