package timeline

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// An entry of the outbox is one stream entry with these fields:
//
//	c  context: version 1, time in ms (8), term (8), instance, address: a length byte and the text each;
//	   the caller, if any: a length byte and the text; or several callers: a zero byte, and the uid of a
//	   push, a length byte and the text each
//	z  "size changes": its share of the outbox's limit, and how many changes it holds
//
// then either pairs of uid and
//
//	a packed message (1 …)        it was accepted
//	a record of an end (2 …)      it was canceled
//	due (8), mark                 it was swept or reclaimed from a leader
//	3, due (8), mark and cause:   it was amended, a push was merged into it, or a requeue made it of a
//	  a length byte and the text  dead message; the packed message follows if its content changed or
//	  each, packed message or ''  is new
//	4, digest (32), uvarint size, the push was not accepted
//	  reason, id, topic: a length
//	  byte and the text each, body
//	5, start of the lease (8),    it ended, or waits again, by its lease or past its time to live; both are 0
//	  attempt (4), refusals (4),  without a lease
//	  record of an end (2 …), or
//	  3 …
//
// or the field e with changes that the leader knew beforehand and, if some of them were not made, the field o with the
// uids of those that were; then pairs for the script's other changes. A change in e is
//
//	uid, state (1), flags (1): 1 uncertain, uvarint version, varint due, uvarint refusals,
//	uvarint attempt, varint time of the claim, uvarint sequence, stream and cause: a length byte
//	and the text each

const (
	contextVersion  = 1
	changeUncertain = 1
	amendedVersion  = 3
	rejectedVersion = 4
	leasedVersion   = 5
	// maxTime is the latest time that the scripts can represent.
	maxTime = 1 << 53
)

// origin is the part that all changes of an entry share.
type origin struct {
	at                message.Milli
	term              uint64
	instance, address string
	by                string
	of                map[message.UID]string // who pushed which, if several did
}

// context packs the origin of a change made now; it is nil if no journal is kept. pushes are the batch of an add.
func (t *Redis) context(ctx context.Context, term uint64, now message.Milli, pushes ...*message.Message) []byte {
	r := t.cfg.Record
	if r == nil {
		return nil
	}
	address := r.Address
	address = address[:min(len(address), maxText)]
	b := make([]byte, 0, 19+len(r.Instance)+len(address))
	b = append(b, contextVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(now))
	b = binary.BigEndian.AppendUint64(b, term)
	b = appendText(b, r.Instance)
	b = appendText(b, address)
	by := scheduler.Caller(ctx)
	for i, m := range pushes {
		if i == 0 {
			by = m.By
		} else if m.By != by {
			return appendCallers(append(b, 0), pushes)
		}
	}
	if by != "" {
		b = appendText(b, by)
	}
	return b
}

func appendCallers(b []byte, pushes []*message.Message) []byte {
	for _, m := range pushes {
		if m.By != "" {
			b = appendText(append(b, m.UID...), m.By)
		}
	}
	return b
}

func readContext(s string) (origin, error) {
	r := reader{s: s}
	version := r.byte()
	c := origin{at: message.Milli(r.uint64()), term: r.uint64()}
	c.instance, c.address = r.text(int(r.byte())), r.text(int(r.byte()))
	if r.at < len(s) {
		c.by = r.text(int(r.byte()))
	}
	for r.at < len(s) && !r.bad {
		if c.of == nil {
			c.of = map[message.UID]string{}
		}
		uid := message.UID(r.text(message.UIDLen))
		c.of[uid] = r.text(int(r.byte()))
	}
	if version != contextVersion {
		return origin{}, fmt.Errorf("%w: context of an entry, version %d", unknown(version, contextVersion), version)
	}
	if r.bad || c.at < 0 || c.at > maxTime {
		return origin{}, fmt.Errorf("%w: context of an entry, version %d", scheduler.ErrUnreadable, version)
	}
	return c, nil
}

// put completes a change with its origin.
func (c *origin) put(change *record.Change, bucket message.Bucket) {
	change.At, change.Term, change.Instance, change.Address, change.Bucket = c.at, c.term, c.instance, c.address, bucket
	change.By = cmp.Or(c.of[change.UID], c.of[change.Other], c.by)
}

func appendText(b []byte, s string) []byte {
	s = s[:min(len(s), maxText)]
	return append(append(b, byte(len(s))), s...)
}

// blobOf packs changes as the field e; it returns nil for none.
func blobOf(changes []record.Change) []byte {
	if len(changes) == 0 {
		return nil
	}
	b := make([]byte, 0, 64*len(changes))
	for i := range changes {
		c := &changes[i]
		var flags byte
		if c.Uncertain {
			flags |= changeUncertain
		}
		b = append(b, c.UID...)
		b = append(b, byte(c.State), flags)
		b = binary.AppendUvarint(b, c.Version)
		b = binary.AppendVarint(b, int64(c.Due))
		b = binary.AppendUvarint(b, uint64(c.Refusals))
		b = binary.AppendUvarint(b, uint64(c.Attempt))
		b = binary.AppendVarint(b, int64(c.Claimed))
		b = binary.AppendUvarint(b, c.Sequence)
		b = appendText(b, c.Stream)
		b = appendText(b, packCause(c.Kind, c.Other, c.Reason, c.Uncertain))
	}
	return b
}

func readBlob(s string) (changes []record.Change, err error) {
	r := reader{s: s}
	for r.at < len(s) && !r.bad {
		c := record.Change{UID: message.UID(r.text(message.UIDLen)), State: message.State(r.byte())}
		c.Uncertain = r.byte()&changeUncertain != 0
		c.Version = r.uvarint64()
		c.Due = message.Milli(r.varint64())
		refusals, attempt := r.uvarint64(), r.uvarint64()
		c.Claimed = message.Milli(r.varint64())
		c.Sequence = r.uvarint64()
		c.Stream = r.text(int(r.byte()))
		c.Kind, c.Other, c.Reason = r.cause(c.Uncertain, 0)
		if !message.IsUID(string(c.UID)) {
			r.bad = true
		}
		if refusals > math.MaxUint32 || attempt > math.MaxUint32 || c.Version == 0 || c.State == message.StateNone ||
			!c.State.Valid() {
			r.bad = true
		}
		c.Refusals, c.Attempt = uint32(refusals), uint32(attempt)
		changes = append(changes, c)
	}
	if r.bad {
		return nil, fmt.Errorf("%w: changes of an entry", scheduler.ErrUnreadable)
	}
	return changes, nil
}

// readEntry decodes a stream entry.
func readEntry(bucket message.Bucket, id string, fields []string) (record.Entry, error) {
	e := record.Entry{Bucket: bucket, ID: id}
	if len(fields) < 4 || len(fields)%2 != 0 || fields[0] != "c" || fields[2] != "z" {
		return e, fmt.Errorf("%w: %d fields", scheduler.ErrUnreadable, len(fields))
	}
	from, err := readContext(fields[1])
	if err != nil {
		return e, err
	}
	if err = readWritten(id+" "+fields[3], &e); err != nil {
		return e, err
	}
	for f := fields[4:]; len(f) > 0; f = f[2:] {
		switch f[0] {
		case "e":
			e.Changes, err = readBlob(f[1])
		case "o":
			e.Changes = only(e.Changes, uidSet(f[1]))
		default:
			var c record.Change
			c, err = readPair(message.UID(f[0]), f[1])
			e.Changes = append(e.Changes, c)
		}
		if err != nil {
			return e, err
		}
	}
	for i := range e.Changes {
		from.put(&e.Changes[i], bucket)
	}
	return e, nil
}

// damaged returns an entry for one that cannot be read. The entry names the messages whose uids are legible.
func (t *Redis) damaged(bucket message.Bucket, id string, fields []string, why error) record.Entry {
	e := record.Entry{Bucket: bucket, ID: id, Damaged: why}
	ms, _, _ := strings.Cut(id, "-")
	written, _ := strconv.ParseInt(ms, 10, 64)
	from := origin{at: message.Milli(written)}
	seen := map[message.UID]bool{}
	named := func(uid message.UID) {
		if !seen[uid] && uid.Bucket(t.Buckets()) == bucket && len(seen) < record.MaxQuarantinedUIDs {
			seen[uid] = true
			e.Changes = append(e.Changes, record.Change{UID: uid, Bucket: bucket, At: from.at})
		}
	}
	for i := 0; i+1 < len(fields); i += 2 {
		name, value := fields[i], fields[i+1]
		if c, err := readContext(value); name == "c" && err == nil {
			from = c
		}
		uidsIn(name, named)
		if !message.IsUID(name) { // otherwise the value is a message: its body may hold any uids
			uidsIn(value, named)
		}
	}
	return e
}

// uidsIn calls each with every uid found in a text.
func uidsIn(s string, each func(message.UID)) {
	for at := 0; at+message.UIDLen <= len(s); {
		if uid := s[at : at+message.UIDLen]; message.IsUID(uid) {
			each(message.UID(uid))
			at += message.UIDLen
		} else {
			at++
		}
	}
}

// readPair decodes one change that a script determined only as it ran.
func readPair(uid message.UID, s string) (record.Change, error) {
	if !message.IsUID(string(uid)) || s == "" {
		return record.Change{}, fmt.Errorf("%w: change without a uid or content", scheduler.ErrUnreadable)
	}
	switch s[0] {
	case packedVersion:
		m, err := unpack(uid, s)
		if err != nil {
			return record.Change{}, err
		}
		return accepted(m), nil
	case endedVersion:
		info, err := unpackInfo(uid, s, false, "")
		if err != nil {
			return record.Change{}, err
		}
		return endedAs(&info), nil
	case amendedVersion:
		return readAmended(uid, s)
	case rejectedVersion:
		return readRejected(uid, s)
	case leasedVersion:
		r := reader{s: s, at: 1}
		claimed, attempt, refusals := message.Milli(r.uint64()), r.uint32(), r.uint32()
		if r.bad || r.at == len(s) || s[r.at] != endedVersion && s[r.at] != amendedVersion {
			return record.Change{}, fmt.Errorf("%w: lease of %s", scheduler.ErrUnreadable, uid)
		}
		c, err := readPair(uid, s[r.at:])
		if c.Claimed = claimed; c.State.Ended() {
			c.Refusals = refusals
		}
		if attempt > 0 {
			c.Attempt = attempt
		}
		return c, err
	}
	if err := unknown(s[0], leasedVersion); errors.Is(err, scheduler.ErrNewer) {
		return record.Change{}, fmt.Errorf("%w: change of %s, version %d", err, uid, s[0])
	}
	r := reader{s: s}
	due := message.Milli(r.uint64())
	mark, err := unpackMark(s[r.at:])
	if r.bad || err != nil {
		return record.Change{}, fmt.Errorf("%w: sweep of %s", scheduler.ErrUnreadable, uid)
	}
	return record.Change{UID: uid, Version: 1 + uint64(mark.Changes), State: message.StateWaiting, Due: due,
		Uncertain: mark.Uncertain, Refusals: mark.Refusals, Kind: message.KindSwept,
		Reason: message.KindSwept.Words("", true)}, nil
}

// readAmended decodes the change of a message that continues to wait, or that a requeue made of a dead message.
func readAmended(uid message.UID, s string) (record.Change, error) {
	r := reader{s: s, at: 1}
	due := message.Milli(r.uint64())
	mark, err := unpackMark(r.text(int(r.byte())))
	kind, other, reason := r.cause(mark.Uncertain, 0)
	if r.bad || err != nil {
		return record.Change{}, fmt.Errorf("%w: amend of %s", scheduler.ErrUnreadable, uid)
	}
	c := record.Change{UID: uid, Version: 1 + uint64(mark.Changes), State: message.StateWaiting, Due: due,
		Uncertain: mark.Uncertain, Refusals: mark.Refusals, Kind: kind, Other: other, Reason: reason}
	if r.at < len(s) {
		if c.Message, err = unpack(uid, s[r.at:]); err != nil {
			return record.Change{}, err
		}
	}
	return c, nil
}

// accepted returns the first change of a message.
func accepted(m *message.Message) record.Change {
	return record.Change{UID: m.UID, Version: 1, State: message.StateWaiting, Due: m.Due, Message: m}
}

// readRejected decodes a push that was not accepted.
func readRejected(uid message.UID, s string) (record.Change, error) {
	r := reader{s: s, at: 1}
	p := scheduler.Rejected{UID: uid}
	copy(p.Digest[:], r.text(len(p.Digest)))
	p.Size = r.uvarint()
	p.Reason, p.ID, p.Topic = r.text(int(r.byte())), r.text(int(r.byte())), r.text(int(r.byte()))
	if r.bad {
		return record.Change{}, fmt.Errorf("%w: reject of %s", scheduler.ErrUnreadable, uid)
	}
	p.Body = []byte(s[r.at:])
	return record.Change{UID: uid, Rejected: &p}, nil
}

// endedAs returns the change that the record of an ended message holds.
func endedAs(i *message.Info) record.Change {
	return record.Change{UID: i.UID, Version: i.Version, State: i.State, Due: i.Due, Uncertain: i.Mark.Uncertain,
		Refusals: i.Mark.Refusals, Attempt: i.Tries(), Kind: i.Kind, Other: i.Other, Reason: i.Reason}
}

// only returns the changes of the given messages.
func only(changes []record.Change, uids map[message.UID]bool) []record.Change {
	kept := changes[:0:0]
	for i := range changes {
		if uids[changes[i].UID] {
			kept = append(kept, changes[i])
		}
	}
	return kept
}

// uidSet reads concatenated uids.
func uidSet(s string) map[message.UID]bool {
	uids := map[message.UID]bool{}
	for ; len(s) >= message.UIDLen; s = s[message.UIDLen:] {
		uids[message.UID(s[:message.UIDLen])] = true
	}
	return uids
}

func (r *reader) uvarint64() uint64 {
	v, n := binary.Uvarint([]byte(r.s[min(r.at, len(r.s)):min(r.at+binary.MaxVarintLen64, len(r.s))]))
	if n <= 0 || r.bad {
		r.bad = true
		return 0
	}
	r.at += n
	return v
}

func (r *reader) varint64() int64 {
	u := r.uvarint64()
	v := int64(u >> 1)
	if u&1 != 0 {
		v = ^v
	}
	return v
}
