package journal

// The points at which a test may want a process to break off.
const (
	// AfterRedis: the changes are made in the timeline, and not in the journal.
	AfterRedis = "after-redis-before-sql"
	// AfterCommit: the journal holds the changes, and the outbox too.
	AfterCommit = "after-commit-before-delete"
	// MidRestore: a page of what lives is back in the timeline.
	MidRestore = "mid-restore"
	// BeforeCertify: a bucket holds what it should, and is not certified.
	BeforeCertify = "before-certify"
)

// at reports to the test that a point is passed.
func at(tell func(string), point string) {
	if tell != nil {
		tell(point)
	}
}
