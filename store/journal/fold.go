package journal

import (
	"cmp"
	"slices"

	"github.com/tarry-mq/tarry/scheduler"
)

// folded is what a batch says of one message: its latest change, and the latest
// that came with content, if any. What lies between reaches transitions only.
type folded struct {
	latest, content *scheduler.Change
}

// fold brings changes to one row a message, in the order of their uids, so that
// two writers that lock the same rows do it in the same order.
func fold(changes []scheduler.Change) []folded {
	rows := make([]folded, 0, len(changes))
	place := make(map[scheduler.UID]int, len(changes))
	for i := range changes {
		c := &changes[i]
		at, known := place[c.UID]
		if !known {
			at = len(rows)
			place[c.UID] = at
			rows = append(rows, folded{latest: c})
		}
		row := &rows[at]
		if c.Version > row.latest.Version {
			row.latest = c
		}
		if c.Message != nil && (row.content == nil || c.Version > row.content.Version) {
			row.content = c
		}
	}
	slices.SortFunc(rows, func(a, b folded) int { return cmp.Compare(a.latest.UID, b.latest.UID) })
	return rows
}

// inOrder are the changes by uid and version, one of each.
func inOrder(changes []scheduler.Change) []*scheduler.Change {
	sorted := make([]*scheduler.Change, len(changes))
	for i := range changes {
		sorted[i] = &changes[i]
	}
	slices.SortStableFunc(sorted, func(a, b *scheduler.Change) int {
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Version, b.Version))
	})
	return slices.CompactFunc(sorted, func(a, b *scheduler.Change) bool {
		return a.UID == b.UID && a.Version == b.Version
	})
}
