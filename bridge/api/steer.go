package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Steering is the part of the scheduler that changes waiting and dead messages. progress may be nil; it is called from
// time to time, from the goroutine of the call, with the progress so far. An operation on many messages that fails
// reports what it had done.
type Steering interface {
	// Held finds messages of a topic, a key or both that have not ended, or are dead.
	Held(ctx context.Context, topic, key string, limit, most int) (found []message.UID, looked int, whole bool,
		err error)
	Reschedule(ctx context.Context, ref scheduler.Ref, e scheduler.Edit) (scheduler.AmendResult, error)
	CancelMany(ctx context.Context, sel scheduler.Selection, progress func(scheduler.Report)) (scheduler.Report, error)
	RescheduleMany(ctx context.Context, sel scheduler.Selection, e scheduler.Edit,
		progress func(scheduler.Report)) (scheduler.Report, error)

	// Dead returns a page of dead messages and the cursor of the next page, empty on the last one. Error: ErrBadCursor.
	Dead(ctx context.Context, topic, cursor string, limit int) ([]message.Info, string, error)
	RequeueOne(ctx context.Context, ref scheduler.Ref, r scheduler.Requeue) (scheduler.Accepted, error)
	RequeueMany(ctx context.Context, sel scheduler.Selection, r scheduler.Requeue,
		progress func(scheduler.Report)) (scheduler.Report, error)
	PurgeOne(ctx context.Context, ref scheduler.Ref) error
	PurgeMany(ctx context.Context, sel scheduler.Selection, progress func(scheduler.Report)) (scheduler.Report, error)

	TopicCount(ctx context.Context, topic string) (scheduler.TopicCount, error)
	// TopicCounts returns a page of the topics that have messages, ordered by name, after the given name.
	TopicCounts(ctx context.Context, after string, limit int) ([]scheduler.TopicCount, error)
	Pauses(ctx context.Context) ([]scheduler.Pause, error)
	// ParkedLanes lists the lanes that hold messages back, and the reasons.
	ParkedLanes(ctx context.Context) ([]scheduler.Parked, error)
	// ParkedTopics returns the reason for each of the topics that has messages held back.
	ParkedTopics(ctx context.Context, topics []string) (map[string]message.Why, error)
	// Pause and Resume report whether the leader has applied the change.
	Pause(ctx context.Context, pattern, by string) (inEffect bool, err error)
	Resume(ctx context.Context, pattern string) (was, inEffect bool, err error)
}

// reschedule changes a waiting message and answers with the actual outcome.
func (s *Server) reschedule(w http.ResponseWriter, r *http.Request) error {
	return s.amend(w, r, func(body []byte) (scheduler.Edit, error) {
		asked, err := ops.DecodeEdit(body)
		if err != nil {
			return scheduler.Edit{}, err
		}
		edit := ops.EditOf(&asked)
		edit.Fit = s.limits()
		return edit, nil
	})
}

// runNow makes a waiting message due at once.
func (s *Server) runNow(w http.ResponseWriter, r *http.Request) error {
	return s.amend(w, r, func(body []byte) (scheduler.Edit, error) {
		return scheduler.Edit{Run: true}, ops.DecodeEmpty(body, "a run")
	})
}

// limits returns the limits of a push: the configured one and NATS's own.
func (s *Server) limits() ops.Limits {
	return ops.Limits{Content: s.cfg.SizeLimit, Payload: s.cfg.MaxPayload()}
}

// amend reads the message's name, the expected version and the change, and applies it.
func (s *Server) amend(w http.ResponseWriter, r *http.Request, decode func(body []byte) (scheduler.Edit, error)) error {
	ref, err := reference(r)
	if err != nil {
		return err
	}
	version, err := ifMatch(r)
	if err != nil {
		return err
	}
	body, release, err := s.read(w, r)
	if err != nil {
		return err
	}
	defer release()
	edit, err := decode(body)
	if err != nil {
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
	amended, refused := ops.Amend(r.PathValue("id"), &result)
	if result.Info.Version > 0 { // also after a refusal: it saves the look-up
		tagged(w, result.Info.Version)
	}
	if refused != nil {
		return &problem{*refused}
	}
	return s.respondValue(w, http.StatusOK, amended)
}

// ifMatch returns the expected version, 0 for any.
func ifMatch(r *http.Request) (uint64, error) {
	lines := r.Header.Values("If-Match")
	if len(lines) == 0 {
		return 0, nil
	}
	return ops.ParseIfMatch(strings.Join(lines, ", "))
}

// tagged sets a message's version as the ETag, for use in If-Match.
func tagged(w http.ResponseWriter, version uint64) {
	w.Header().Set("ETag", fmt.Sprintf(`"%d"`, version))
}
