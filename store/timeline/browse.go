package timeline

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
)

// browseBytes bounds what one page reads: the scripts get at the short part of a
// message only by its whole.
const browseBytes = 4 << 20

// Browse looks at a page of what waits, or of what is dead. What waits is in the
// order of its place: that is its due time, or a later one after a refusal.
func (t *Redis) Browse(ctx context.Context, bucket int, q scheduler.Browse) (scheduler.Browsed, error) {
	k, err := t.place(bucket)
	if err != nil {
		return scheduler.Browsed{}, err
	}
	after, err := readPlace(q.After, q.Dead)
	if err != nil {
		return scheduler.Browsed{}, fmt.Errorf("browse: %w", err)
	}
	which, lowest, highest := "dead", int64(q.From), int64(q.To)
	if !q.Dead {
		which, lowest, highest = "", int64(q.From)<<8, scheduler.ScoreNow(q.To)
	}
	to := any("+inf")
	if q.To != 0 {
		to = highest
	}
	v, err := t.run(ctx,
		&call{bucket: bucket, script: t.scripts.browse, keys: []string{k.due, k.msg, k.mark, k.lanes, k.dead},
			args: []any{which, lowest, to, max(q.Limit, 1), browseBytes, k.parked, after.order,
				after.score, after.uid}})
	if err != nil {
		return scheduler.Browsed{}, err
	}
	f, err := texts(v)
	if err != nil || len(f) < 3 || len(f)%3 != 0 {
		return scheduler.Browsed{}, errAnswer("browse", len(f), err)
	}
	page := scheduler.Browsed{Messages: make([]scheduler.Info, 0, len(f)/3-1)}
	if f[0] != "" {
		page.Next = place{f[0], f[1], f[2]}.String()
	}
	for f = f[3:]; len(f) > 0; f = f[3:] {
		info, err := unpackInfo(scheduler.UID(f[0]), f[1], false, f[2])
		if err != nil { // the claim lists it, when it is due
			continue
		}
		page.Messages = append(page.Messages, info)
	}
	return page, nil
}

// place is where a page ended: an order, and a score and uid in it. As text the
// order comes last, for a lane's name may hold anything.
type place struct{ order, score, uid string }

func (p place) String() string { return p.score + "/" + p.uid + "/" + p.order }

// readPlace reads a cursor; the empty text is the beginning.
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
	if err != nil || !scheduler.IsUID(p.uid) || dead != (p.order == "dead") ||
		(!dead && p.order != "due" && !strings.HasPrefix(p.order, "lane:")) {
		return place{}, fmt.Errorf("%w: %.60q", scheduler.ErrBadCursor, s)
	}
	return p, nil
}
