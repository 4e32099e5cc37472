package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/election"
)

// node is this instance's membership in the cluster.
type node interface {
	Run(ctx context.Context) error
	Members(ctx context.Context) ([]election.Member, error)
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
	store := ""
	for _, m := range members {
		if led && m.Instance == leader.Instance {
			store = m.Store
		}
	}
	for _, m := range members {
		role := wire.RoleStandby
		if led && m.Instance == leader.Instance {
			role = wire.RoleLeader
		}
		info.Instances = append(info.Instances,
			wire.Instance{Instance: m.Instance, Address: m.Address, Role: role, Healthy: m.Healthy, Version: m.Version,
				OtherStore: store != "" && m.Store != "" && m.Store != store, Linked: m.Linked && role == wire.RoleStandby})
	}
	return info, nil
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
