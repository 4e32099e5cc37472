package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/election"
)

// cluster shows the election to HTTP.
type cluster struct {
	elector election.Elector
	// ask asks another instance, which leads, to resign.
	ask func(ctx context.Context, instance, reason string) error
}

// Cluster returns the instances and their roles.
func (c *cluster) Cluster(ctx context.Context) (api.ClusterInfo, error) {
	leader, led, err := c.elector.Leader(ctx)
	if err != nil {
		return api.ClusterInfo{}, fmt.Errorf("%w: %w", answer.ErrUnreachable, err)
	}
	members, err := c.elector.Members(ctx)
	if err != nil {
		return api.ClusterInfo{}, fmt.Errorf("%w: %w", answer.ErrUnreachable, err)
	}
	info := api.ClusterInfo{Term: leader.Term}
	if led {
		info.Leader = &api.Leader{Instance: leader.Instance, Address: leader.Address, Since: leader.Since}
	}
	store := ""
	for _, m := range members {
		if led && m.Instance == leader.Instance {
			store = m.Store
		}
	}
	for _, m := range members {
		role := api.RoleStandby
		if led && m.Instance == leader.Instance {
			role = api.RoleLeader
		}
		info.Instances = append(info.Instances,
			api.Instance{Instance: m.Instance, Address: m.Address, Role: role, Healthy: m.Healthy, Version: m.Version,
				OtherStore: store != "" && m.Store != "" && m.Store != store})
	}
	return info, nil
}

// Resign makes the leader, this instance or another, give leadership up, when
// somebody could take it.
func (c *cluster) Resign(ctx context.Context, reason string) error {
	leader, err := c.replaceable(ctx)
	if err != nil {
		return err
	}
	if err := c.elector.Resign(ctx, reason); errors.Is(err, election.ErrNotLeader) {
		if err = c.ask(ctx, leader, reason); err != nil {
			return fmt.Errorf("%w: %w", answer.ErrNotLeader, err)
		}
		return nil
	} else if err != nil {
		return fmt.Errorf("resign: %w", err)
	}
	return nil
}

// resignHere is Resign of this instance alone, for those that ask it over NATS.
func (c *cluster) resignHere(ctx context.Context, reason string) error {
	if _, err := c.replaceable(ctx); err != nil {
		return err
	}
	err := c.elector.Resign(ctx, reason)
	if errors.Is(err, election.ErrNotLeader) {
		return answer.ErrNotLeader
	}
	return err
}

// replaceable is who leads, where somebody else could.
func (c *cluster) replaceable(ctx context.Context) (leader string, err error) {
	members, err := c.elector.Members(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %w", answer.ErrUnreachable, err)
	}
	who, led, err := c.elector.Leader(ctx)
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
