package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
)

// Cluster is what the election does for this door.
type Cluster interface {
	// Cluster returns the instances and their roles. answer.ErrUnreachable: they cannot be read now.
	Cluster(ctx context.Context) (ClusterInfo, error)
	// Resign makes the leader give leadership up. It may answer what bridge/answer says of an election.
	Resign(ctx context.Context, reason string) error
}

// ClusterInfo is who is there.
type ClusterInfo struct {
	Term      uint64
	Leader    *Leader // nil while nobody leads
	Instances []Instance
}

// Leader is who leads, and since when.
type Leader struct {
	Instance string
	Address  string
	Since    time.Time
}

// The roles of an instance.
const (
	RoleLeader  = "leader"
	RoleStandby = "standby"
)

// Instance is one that lives.
type Instance struct {
	Instance string `json:"instance"`
	Address  string `json:"address"`
	Role     string `json:"role"`
	Healthy  bool   `json:"healthy"`
	Version  string `json:"version"`
	// OtherStore: its store is not the leader's.
	OtherStore bool `json:"other_store,omitempty"`
}

type clusterAnswer struct {
	Namespace string         `json:"namespace"`
	Term      uint64         `json:"term"`
	Leader    *leaderAnswer  `json:"leader"`
	Instances []Instance     `json:"instances"`
	Parked    []parkedAnswer `json:"parked,omitempty"`
	Journal   *journalAnswer `json:"journal,omitempty"`
	// Checks are those of the instance that answers.
	Checks []checkAnswer `json:"checks,omitempty"`
}

// parkedAnswer is a lane that holds messages back.
type parkedAnswer struct {
	Lane string `json:"lane"`
	Why  string `json:"why"`
}

// maxParked bounds how many lanes the answer names.
const maxParked = 100

type leaderAnswer struct {
	Instance string `json:"instance"`
	Address  string `json:"address"`
	Since    string `json:"since"`
}

func (s *Server) cluster(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	info, err := s.cfg.Cluster.Cluster(ctx)
	if err != nil {
		return err
	}
	a := clusterAnswer{Namespace: s.cfg.Namespace, Term: info.Term, Instances: append([]Instance{}, info.Instances...)}
	if l := info.Leader; l != nil {
		a.Leader = &leaderAnswer{Instance: l.Instance, Address: l.Address, Since: wire.FormatTime(l.Since.UnixMilli())}
	}
	if parked, err := s.cfg.Service.ParkedLanes(ctx); err == nil { // who is there is told all the same
		for _, p := range parked[:min(len(parked), maxParked)] {
			a.Parked = append(a.Parked, parkedAnswer(p))
		}
	}
	a.Journal = s.journalState(ctx)
	a.Checks = s.ownChecks(ctx)
	return s.respondValue(w, http.StatusOK, a)
}

// resign makes the leader step down, for maintenance. The answer comes when it has.
func (s *Server) resign(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	body, release, err := s.read(w, r)
	if err != nil {
		return err
	}
	defer release()
	reason, err := decodeReason(body)
	if err != nil {
		return err
	}
	s.audit(r, "resign", false).Str("reason", reason)
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	switch err := s.cfg.Cluster.Resign(ctx, reason); {
	case errors.Is(err, answer.ErrNotLeader):
		return s.notLeader(ctx, err)
	case err != nil:
		return err
	}
	return s.respondValue(w, http.StatusOK, struct {
		Resigned bool `json:"resigned"`
	}{true})
}

// notLeader says who leads, so that the caller can ask there.
func (s *Server) notLeader(ctx context.Context, err error) error {
	detail := err.Error()
	if info, err := s.cfg.Cluster.Cluster(ctx); err == nil && info.Leader != nil {
		detail += fmt.Sprintf("; %s at %s does", info.Leader.Instance, info.Leader.Address)
	}
	return refusal(http.StatusConflict, answer.WordNotLeader, "%s", detail)
}

const maxReason = 200

// decodeReason reads {"reason":"..."}; the body and the reason may be missing.
func decodeReason(body []byte) (string, error) {
	names, values, err := members(body)
	if err != nil {
		return "", err
	}
	var reason string
	for i, name := range names {
		if name != "reason" || json.Unmarshal(values[i], &reason) != nil {
			return "", &wire.Error{Word: wire.WordJSON, Field: "request", Detail: `is not {"reason":"text"}`}
		}
	}
	if n := utf8.RuneCountInString(reason); n > maxReason {
		return "", &wire.Error{Word: WordReason, Field: "reason",
			Detail: fmt.Sprintf("has %d characters, the limit is %d", n, maxReason)}
	}
	for _, c := range reason {
		if unicode.IsControl(c) {
			return "", &wire.Error{Word: WordReason, Field: "reason", Detail: "contains a control character"}
		}
	}
	return reason, nil
}
