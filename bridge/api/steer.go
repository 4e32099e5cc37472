package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// Steering is what the scheduler does to what waits and to what is dead. progress may be nil; it is called now and
// then, from the goroutine of the call, with how far it is. An operation on many that fails reports what it had done.
type Steering interface {
	Reschedule(ctx context.Context, ref scheduler.Ref, e scheduler.Edit) (scheduler.AmendResult, error)
	CancelMany(ctx context.Context, sel scheduler.Selection, progress func(scheduler.Report)) (scheduler.Report, error)
	RescheduleMany(ctx context.Context, sel scheduler.Selection, e scheduler.Edit,
		progress func(scheduler.Report)) (scheduler.Report, error)

	// Dead is a page of dead messages, and the cursor that asks for the next, empty on the last one. ErrBadCursor.
	Dead(ctx context.Context, topic, cursor string, limit int) ([]scheduler.Info, string, error)
	RequeueOne(ctx context.Context, ref scheduler.Ref, r scheduler.Requeue) (scheduler.Accepted, error)
	RequeueMany(ctx context.Context, sel scheduler.Selection, r scheduler.Requeue,
		progress func(scheduler.Report)) (scheduler.Report, error)
	PurgeOne(ctx context.Context, ref scheduler.Ref) error
	PurgeMany(ctx context.Context, sel scheduler.Selection, progress func(scheduler.Report)) (scheduler.Report, error)

	TopicCount(ctx context.Context, topic string) (scheduler.TopicCount, error)
	// TopicCounts is a page of the topics that have messages, by name, after a name.
	TopicCounts(ctx context.Context, after string, limit int) ([]scheduler.TopicCount, error)
	Pauses(ctx context.Context) ([]scheduler.Pause, error)
	// ParkedLanes lists what holds messages back, and why.
	ParkedLanes(ctx context.Context) ([]scheduler.Parked, error)
	// ParkedTopics says why messages of topics are held back, for those of them that have any.
	ParkedTopics(ctx context.Context, topics []string) (map[string]string, error)
	// Pause and Resume report whether the leader has taken the change over.
	Pause(ctx context.Context, pattern, by string) (inEffect bool, err error)
	Resume(ctx context.Context, pattern string) (was, inEffect bool, err error)
}

// reschedule changes a waiting message and says what really happened.
func (s *Server) reschedule(w http.ResponseWriter, r *http.Request) error {
	return s.amend(w, r, func(body []byte) (scheduler.Edit, error) {
		asked, err := wire.DecodeEdit(body)
		if err != nil {
			return scheduler.Edit{}, err
		}
		edit := answer.Edit(&asked)
		edit.Fit = s.limits()
		return edit, nil
	})
}

// runNow makes a waiting message due at once.
func (s *Server) runNow(w http.ResponseWriter, r *http.Request) error {
	return s.amend(w, r, func(body []byte) (scheduler.Edit, error) {
		return scheduler.Edit{Run: true}, wire.DecodePause(body) // nothing, too
	})
}

// limits are those of a push: more than a request holds could not have come in one, nor can NATS take what exceeds its
// own.
func (s *Server) limits() answer.Limits {
	return answer.Limits{Content: int(s.cfg.MaxBody), Payload: s.cfg.MaxPayload()}
}

// amend reads which message is meant, at which version, and what shall change.
func (s *Server) amend(w http.ResponseWriter, r *http.Request, decode func(body []byte) (scheduler.Edit, error)) error {
	ref, err := reference(r)
	if err != nil {
		return err
	}
	version, err := ifMatch(r)
	if err != nil {
		return err
	}
	var edit scheduler.Edit
	if err = s.body(w, r, func(body []byte) (err error) { edit, err = decode(body); return err }); err != nil {
		return err
	}
	edit.Version = version
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	if ref, err = s.permitted(ctx, r, ref); err != nil {
		return err
	}
	result, err := s.cfg.Service.Reschedule(ctx, ref, edit)
	if err != nil {
		return err
	}
	amended, refused := answer.Amend(r.PathValue("id"), &result)
	if result.Info.Version > 0 { // also of one that was refused: it saves the look-up
		tagged(w, result.Info.Version)
	}
	if refused != nil {
		return &problem{*refused}
	}
	return s.respondValue(w, http.StatusOK, amended)
}

// ifMatch is the version that must stand, 0 for any.
func ifMatch(r *http.Request) (uint64, error) {
	lines := r.Header.Values("If-Match")
	if len(lines) == 0 {
		return 0, nil
	}
	return wire.ParseIfMatch(strings.Join(lines, ", "))
}

// tagged returns a message's version as the tag that If-Match takes.
func tagged(w http.ResponseWriter, version uint64) {
	w.Header().Set("ETag", fmt.Sprintf(`"%d"`, version))
}
