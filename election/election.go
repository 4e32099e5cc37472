package election

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrLost is the cause of every leadership context that ended. The cause's text says why.
	ErrLost = errors.New("leadership lost")

	// ErrResigned is the cause when leadership was given up on purpose. It Is ErrLost too.
	ErrResigned error = &resigned{}

	// ErrNotLeader answers a Resign of an instance that does not lead.
	ErrNotLeader = errors.New("this instance does not lead")

	// ErrUnreachable means that ZooKeeper gave no answer; the value beside it is the last known state.
	ErrUnreachable = errors.New("zookeeper unreachable")

	// ErrDuplicateInstance ends Run: another live process is registered under this instance's name.
	ErrDuplicateInstance = errors.New("instance name is taken")

	// ErrHeld ends Solo's Run: another process holds the guard. The text names it.
	ErrHeld = errors.New("another instance holds the lock")

	// ErrSolo answers a Resign where no other instance could take over.
	ErrSolo = errors.New("a single instance cannot resign: nobody could take over")

	// ErrRunning answers a second Run while the first has not returned.
	ErrRunning = errors.New("election is already running")
)

// resigned is ErrResigned, a kind of ErrLost with words of its own.
type resigned struct{}

func (*resigned) Error() string { return "leadership given up" }
func (*resigned) Unwrap() error { return ErrLost }

// Lead does the leader's work. Its context ends, with a cause that Is ErrLost, before another instance
// can win; it must then return soon, because nobody else can take over in an orderly way until it has.
// Returning while the context lives gives leadership up; the error says why.
type Lead func(ctx context.Context, term uint64) error

// Leader is who leads.
type Leader struct {
	Instance string    `json:"instance"`
	Address  string    `json:"address"`
	Term     uint64    `json:"-"`
	Since    time.Time `json:"since"`
}

// Member is a live instance, leader or standby.
type Member struct {
	Instance string    `json:"instance"`
	Address  string    `json:"address"`
	Version  string    `json:"version"`
	Healthy  bool      `json:"healthy"`
	Store    string    `json:"store,omitempty"` // what it keeps messages in; empty: not known
	Since    time.Time `json:"since"`
}

// Role is where an instance stands; the picture in the package comment shows how it moves.
type Role string

const (
	Disconnected Role = "disconnected"
	Standby      Role = "standby"
	Candidate    Role = "candidate"
	Leading      Role = "leader"
	Resigning    Role = "resigning"
)

// State is for /readyz and logs. It proves nothing: only the leadership context does.
type State struct {
	Role Role
	Term uint64 // of the running leadership, else 0
	Err  error  // what last went wrong; nil once it works again
}

// Elector makes one instance lead at a time.
type Elector interface {
	// Run takes part in the election until ctx ends, and calls lead whenever this instance leads. When
	// ctx ends it ends the leadership's context, waits for lead, gives leadership up, closes the
	// connection and returns nil. Any other return is a refusal that trying again would not mend.
	Run(ctx context.Context, lead func(ctx context.Context, term uint64) error) error

	// Resign gives leadership up now and stays away long enough for another instance to win. It returns
	// when leadership is given up, or with ErrNotLeader.
	Resign(ctx context.Context, reason string) error

	// Leader returns who leads. With an error it returns the last known answer.
	Leader(ctx context.Context) (Leader, bool, error)

	// Members lists the live instances by name.
	Members(ctx context.Context) ([]Member, error)

	// State returns where this instance stands.
	State() State
}
