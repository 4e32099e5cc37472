package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
)

// Cluster is the part of the election that the API uses.
type Cluster interface {
	// Cluster returns the term, the leader and the instances. It returns ops.ErrUnreachable while they cannot be
	// read.
	Cluster(ctx context.Context) (ops.Cluster, error)
	// Forget removes an instance that is gone. It may return ops.ErrNotGone and ops.ErrUnreachable.
	Forget(ctx context.Context, instance string) error
	// Resign makes the leader give leadership up. It may return the election errors of bridge/ops.
	Resign(ctx context.Context, reason string) error
}

// maxParked is the maximum number of lanes in an answer.
const maxParked = 100

func (s *Server) cluster(w http.ResponseWriter, r *http.Request) error {
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	a, err := s.cfg.Cluster.Cluster(ctx)
	if err != nil {
		return err
	}
	a.Namespace = s.cfg.Namespace
	if a.Instances == nil {
		a.Instances = []ops.Instance{}
	}
	if parked, err := s.cfg.Service.ParkedLanes(ctx); err == nil { // without the lanes, the answer has the instances
		a.Parked = parked[:min(len(parked), maxParked)]
	}
	a.Journal = s.journalState(ctx)
	a.Checks = s.ownChecks(ctx)
	if s.cfg.Clocks != nil {
		if err := s.cfg.Clocks(); err != nil {
			a.Clocks = err.Error()
		}
	}
	return s.respondValue(w, http.StatusOK, a)
}

// resign makes the leader step down, for maintenance, and answers once it has.
func (s *Server) resign(w http.ResponseWriter, r *http.Request) error {
	reason, err := decoded(s, w, r, decodeReason)
	if err != nil {
		return err
	}
	s.audit(r, "resign", false).Str("reason", reason)
	return s.done(w, r, func(ctx context.Context) (any, error) {
		err := s.cfg.Cluster.Resign(ctx, reason)
		if errors.Is(err, ops.ErrNotLeader) {
			err = s.notLeader(ctx, err)
		}
		return map[string]bool{"resigned": true}, err
	})
}

// forget removes an instance that is gone from those that are listed.
func (s *Server) forget(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("instance")
	s.audit(r, "forget", false).Str("instance", name)
	return s.done(w, r, func(ctx context.Context) (any, error) {
		return map[string]bool{"forgotten": true}, s.cfg.Cluster.Forget(ctx, name)
	})
}

// notLeader names the leader, so that the caller can send its request there.
func (s *Server) notLeader(ctx context.Context, err error) error {
	detail := err.Error()
	if info, err := s.cfg.Cluster.Cluster(ctx); err == nil && info.Leader != nil {
		detail += fmt.Sprintf("; %s at %s does", info.Leader.Instance, info.Leader.Address)
	}
	return refusal(http.StatusConflict, ops.WordNotLeader, "%s", detail)
}

// decodeReason reads {"reason":"..."}; the body and the reason may be missing.
func decodeReason(body []byte) (string, error) {
	names, values, err := members(body)
	if err != nil {
		return "", err
	}
	var reason string
	for i, name := range names {
		if name != "reason" || json.Unmarshal(values[i], &reason) != nil {
			return "", &wire.Error{Word: ops.WordJSON, Field: "request", Detail: `is not {"reason":"text"}`}
		}
	}
	return wire.CleanReason(reason), nil
}
