package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/election"
)

// node is this instance's membership in the cluster.
type node interface {
	Run(ctx context.Context) error
	Members(ctx context.Context) ([]election.Member, error)
	Gone(ctx context.Context) ([]election.Gone, error)
	Forget(ctx context.Context, instance string) error
}

// race is the leadership for which instances compete.
type race interface {
	Leader(ctx context.Context) (election.Leader, bool, error)
	Resign(ctx context.Context, reason string) error
	State() election.State
}

// cluster shows the election to the HTTP API.
type cluster struct {
	node node
	race race
	// ask asks another instance, the leader, to resign.
	ask func(ctx context.Context, instance, reason string) error
}

// Cluster returns the instances and their roles.
func (c *cluster) Cluster(ctx context.Context) (wire.Cluster, error) {
	leader, led, err := c.race.Leader(ctx)
	if err != nil {
		return wire.Cluster{}, fmt.Errorf("%w: %w", answer.ErrUnreachable, err)
	}
	members, err := c.node.Members(ctx)
	if err != nil {
		return wire.Cluster{}, fmt.Errorf("%w: %w", answer.ErrUnreachable, err)
	}
	info := wire.Cluster{Term: leader.Term}
	if led {
		info.Leader = &wire.Leader{Instance: leader.Instance, Address: leader.Address,
			Since: wire.FormatTime(leader.Since.UnixMilli())}
	}
	var leads election.Member
	for _, m := range members {
		if led && m.Instance == leader.Instance {
			leads = m
		}
	}
	for _, m := range members {
		role := wire.RoleStandby
		if led && m.Instance == leader.Instance {
			role = wire.RoleLeader
		}
		info.Instances = append(info.Instances,
			wire.Instance{Instance: m.Instance, Address: m.Address, Role: role, Version: m.Version,
				Ready: !m.Unready && (m.Settings != "" || m.Healthy), // an older instance says only whether it could lead
				Lacks: words(m.Lacks), CanLead: m.Healthy,
				Differs:    config.Differing(m.Settings, leads.Settings),
				Restored:   m.Restored,
				OtherStore: leads.Store != "" && m.Store != "" && m.Store != leads.Store,
				Linked:     m.Linked && role == wire.RoleStandby})
	}
	gone, err := c.node.Gone(ctx)
	if err != nil {
		return wire.Cluster{}, fmt.Errorf("%w: %w", answer.ErrUnreachable, err)
	}
	for _, g := range gone {
		info.Instances = append(info.Instances, wire.Instance{Instance: g.Instance, Address: g.Address,
			Role: wire.RoleGone, Version: g.Version, Seen: wire.FormatTime(g.Seen.UnixMilli())})
	}
	return info, nil
}

// words returns what stands between commas.
func words(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ", ")
}

// Forget removes an instance that is gone.
func (c *cluster) Forget(ctx context.Context, instance string) error {
	err := c.node.Forget(ctx, instance)
	switch {
	case errors.Is(err, election.ErrNotGone):
		return fmt.Errorf("%w: %s", answer.ErrNotGone, instance)
	case err != nil:
		return fmt.Errorf("%w: %w", answer.ErrUnreachable, err)
	}
	return nil
}

// Resign makes the leader, this instance or another, resign if another instance could take over.
func (c *cluster) Resign(ctx context.Context, reason string) error {
	leader, err := c.replaceable(ctx)
	if err != nil {
		return err
	}
	if err := c.race.Resign(ctx, reason); errors.Is(err, election.ErrNotLeader) {
		if err = c.ask(ctx, leader, reason); err != nil {
			return fmt.Errorf("%w: %w", answer.ErrNotLeader, err)
		}
		return nil
	} else if err != nil {
		return fmt.Errorf("resign: %w", err)
	}
	return nil
}

// resignHere is Resign for this instance only, for requests over NATS.
func (c *cluster) resignHere(ctx context.Context, reason string) error {
	if _, err := c.replaceable(ctx); err != nil {
		return err
	}
	err := c.race.Resign(ctx, reason)
	if errors.Is(err, election.ErrNotLeader) {
		return answer.ErrNotLeader
	}
	return err
}

// replaceable returns the leader, if another instance could take over.
func (c *cluster) replaceable(ctx context.Context) (leader string, err error) {
	members, err := c.node.Members(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %w", answer.ErrUnreachable, err)
	}
	who, led, err := c.race.Leader(ctx)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", answer.ErrUnreachable, err)
	case !led:
		return "", answer.ErrNoLeader
	}
	other := false
	for _, m := range members {
		other = other || (m.Healthy && m.Instance != who.Instance)
	}
	if !other {
		return "", answer.ErrNoStandby
	}
	return who.Instance, nil
}
