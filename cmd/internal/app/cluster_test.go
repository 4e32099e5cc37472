package app

import (
	"context"
	"errors"
	"testing"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/election"
)

// electing is an election in which "one" leads.
type electing struct {
	node
	race
	members []election.Member
	resigns []string
}

func (e *electing) Members(context.Context) ([]election.Member, error) { return e.members, nil }
func (e *electing) Gone(context.Context) ([]election.Gone, error)      { return nil, nil }
func (e *electing) Leader(context.Context) (election.Leader, bool, error) {
	return election.Leader{Instance: "one", Term: 3}, true, nil
}
func (e *electing) Resign(_ context.Context, reason string) error {
	e.resigns = append(e.resigns, reason)
	return nil
}

func TestCluster_NobodyResignsWithoutAHealthyStandbyWhoeverAsks(t *testing.T) {
	t.Parallel()
	e := &electing{members: []election.Member{{Instance: "one", Healthy: true}, {Instance: "two"}}}
	c := &cluster{node: e, race: e}
	for name, resign := range map[string]func(context.Context, string) error{"over HTTP": c.Resign,
		"asked by another instance": c.resignHere} {
		e.members[1].Healthy = false
		if err := resign(t.Context(), "why"); !errors.Is(err, ops.ErrNoStandby) || len(e.resigns) > 0 {
			t.Errorf("%s without a healthy standby: %v, resigned %q", name, err, e.resigns)
		}
		e.members[1].Healthy = true
		if err := resign(t.Context(), name); err != nil || len(e.resigns) != 1 || e.resigns[0] != name {
			t.Errorf("%s: %v, resigned %q", name, err, e.resigns)
		}
		e.resigns = nil
	}
}
