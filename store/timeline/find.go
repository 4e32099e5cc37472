package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Find asks the one bucket that a uid or key determines, or all buckets at once for a client id alone.
func (t *Redis) Find(ctx context.Context, ref scheduler.Ref) ([]message.Info, error) {
	buckets := t.bucketsOf(ref)
	found, next, err := t.find(ctx, buckets, ref, "")
	if err != nil && !errors.Is(err, scheduler.ErrUnreadable) || next == "" {
		return found, err
	}
	// An id has more names than one call reads: go bucket by bucket.
	found = nil
	var damaged error
	for _, b := range buckets {
		var here []message.Info
		for next = ""; ; {
			page, after, err := t.find(ctx, []message.Bucket{b}, ref, next)
			here = append(here, page...)
			if errors.Is(err, scheduler.ErrUnreadable) {
				damaged, err = err, nil
			}
			if err == nil && manyNames(here) {
				err = errManyNames
			}
			if err != nil {
				return append(found, here...), err
			}
			if next = after; next == "" {
				break
			}
		}
		found = append(found, here...)
	}
	return found, damaged
}

// find reads a page of each bucket's names; next is where one of them continues. If a message cannot be read, find
// returns the error beside the messages that it found.
func (t *Redis) find(ctx context.Context, buckets []message.Bucket, ref scheduler.Ref,
	after string) (found []message.Info, next string, err error) {
	args := findArgs(ref, after)
	many := false
	var damaged error
	err = t.ask(ctx, buckets, "find", args, func(_ message.Bucket, a *answer) error {
		next = cmp.Or(a.text("next"), next)
		from := len(found)
		for a.more() {
			info, err := a.found()
			if errors.Is(err, scheduler.ErrUnreadable) {
				damaged = fmt.Errorf("find: %w", err)
				continue
			}
			a.fail("message", err)
			found = append(found, info)
		}
		many = many || manyNames(found[from:])
		return a.done()
	})
	switch {
	case err == nil && many:
		err = errManyNames
	case err == nil:
		err = damaged
	}
	return found, next, err
}

// findArgs returns a look-up's arguments as find.lua reads them.
func findArgs(ref scheduler.Ref, after string) []any {
	args := []any{string(ref.UID), ref.ID, ref.Topic, keyArg(ref), ref.Key, scheduler.MaxNamesOfID, after}
	if ref.Topic == "" && ref.Viewer != nil {
		if len(ref.Viewer.Topics) == 0 {
			return append(args, "^$") // no topic matches it
		}
		for _, p := range ref.Viewer.Topics {
			args = append(args, luaPattern(p))
		}
	}
	return args
}

// luaPattern translates a pattern of NATS subjects into a Lua pattern.
func luaPattern(pattern string) string {
	b := []byte{'^'}
	for i, token := range strings.Split(pattern, ".") {
		if i > 0 {
			b = append(b, "%."...)
		}
		switch token {
		case "*":
			b = append(b, "[^.]+"...)
		case ">":
			b = append(b, ".+"...)
		default:
			for _, c := range []byte(token) {
				if c > ' ' && c < '0' || c > '9' && c < 'A' || c > 'Z' && c < 'a' || c > 'z' && c < 0x7f {
					b = append(b, '%')
				}
				b = append(b, c)
			}
		}
	}
	return string(append(b, '$'))
}

// manyNames reports whether the messages of one bucket have more names than a look-up allows.
func manyNames(found []message.Info) bool {
	if len(found) <= scheduler.MaxNamesOfID {
		return false
	}
	type name struct{ topic, key string }
	names := map[name]struct{}{}
	for i := range found {
		names[name{found[i].Topic, found[i].Key}] = struct{}{}
	}
	return len(names) > scheduler.MaxNamesOfID
}

// errManyNames limits look-ups that leave topic or key open: their cost would grow with the number of names.
var errManyNames = fmt.Errorf("%w: more than %d topics and keys have it; name the topic and the key, or use the uid",
	scheduler.ErrAmbiguousID, scheduler.MaxNamesOfID)

// keyArg returns a script's argument for a key, which may be given but empty.
func keyArg(ref scheduler.Ref) string {
	if ref.Keyed {
		return "k"
	}
	return ""
}

// bucketsOf returns the buckets that may hold a reference.
func (t *Redis) bucketsOf(ref scheduler.Ref) []message.Bucket {
	switch {
	case ref.UID != "":
		return []message.Bucket{ref.UID.Bucket(t.Buckets())}
	case ref.Keyed && ref.Key != "":
		return []message.Bucket{message.BucketOf(ref.Key, t.Buckets())}
	case ref.Keyed:
		return []message.Bucket{message.BucketOf(ref.ID, t.Buckets())}
	}
	return t.allBuckets()
}

func (t *Redis) allBuckets() []message.Bucket {
	all := make([]message.Bucket, t.Buckets())
	for b := range t.Buckets() {
		all[b] = b
	}
	return all
}

// browseBytes bounds the bytes that one page reads: a script must read a whole message to get at its meta part.
const browseBytes = 4 << 20

// Browse returns a page of the waiting messages, or of the dead. Waiting messages are ordered by their place: their due
// time, or a later time after a refusal.
func (t *Redis) Browse(ctx context.Context, bucket message.Bucket, q scheduler.Browse) (scheduler.Browsed, error) {
	after, err := readPlace(q.After, q.Dead)
	if err != nil {
		return scheduler.Browsed{}, fmt.Errorf("browse: %w", err)
	}
	which, lowest, highest := "dead", int64(q.From), int64(q.To)
	if !q.Dead {
		which, lowest, highest = "", int64(q.From)<<8, message.ScoreNow(q.To)
		switch {
		case q.Lane != "":
			which = "lane:" + string(q.Lane)
		case q.Pull:
			which = "pull"
		}
	}
	to := any("+inf")
	if q.To != 0 {
		to = highest
	}
	a := t.run(ctx, &call{bucket: bucket, script: "browse",
		args: []any{which, lowest, to, max(q.Limit, 1), browseBytes, after.order, after.score, after.uid}})
	next := place{a.text("order"), a.text("score"), a.text("uid")}
	page := scheduler.Browsed{Messages: make([]message.Info, 0, len(a.values)/3)}
	if next.order != "" {
		page.Next = next.String()
	}
	for a.more() {
		info, err := unpackInfo(message.UID(a.text("uid")), a.text("record"), false, a.text("mark"))
		if err != nil { // the claim lists it when it is due
			continue
		}
		page.Messages = append(page.Messages, info)
	}
	return page, a.done()
}

// place is where a page ended: an order, and a score and uid in it. In its text the order is last, since a lane's name
// may contain any character.
type place struct{ order, score, uid string }

func (p place) String() string { return p.score + "/" + p.uid + "/" + p.order }

// readPlace reads a cursor; the empty string is the beginning.
func readPlace(s string, dead bool) (place, error) {
	if s == "" {
		return place{}, nil
	}
	f := strings.SplitN(s, "/", 3)
	if len(f) != 3 {
		return place{}, fmt.Errorf("%w: %.60q", scheduler.ErrBadCursor, s)
	}
	p := place{order: f[2], score: f[0], uid: f[1]}
	_, err := strconv.ParseInt(p.score, 10, 64)
	if err != nil || !message.IsUID(p.uid) || dead != (p.order == "dead") ||
		(!dead && p.order != "due" && p.order != "pull" && !strings.HasPrefix(p.order, "lane:")) {
		return place{}, fmt.Errorf("%w: %.60q", scheduler.ErrBadCursor, s)
	}
	return p, nil
}
