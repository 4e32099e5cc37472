package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/election"
)

// cluster shows the election to HTTP.
type cluster struct {
	elector election.Elector
	// ask asks another instance, which leads, to resign.
	ask func(ctx context.Context, instance, reason string) error
}

// Cluster tells who is there.
func (c *cluster) Cluster(ctx context.Context) (api.ClusterInfo, error) {
	leader, led, err := c.elector.Leader(ctx)
	if err != nil {
		return api.ClusterInfo{}, fmt.Errorf("%w: %w", api.ErrUnreachable, err)
	}
	members, err := c.elector.Members(ctx)
	if err != nil {
		return api.ClusterInfo{}, fmt.Errorf("%w: %w", api.ErrUnreachable, err)
	}
	info := api.ClusterInfo{Term: leader.Term}
	if led {
		info.Leader = &api.Leader{Instance: leader.Instance, Address: leader.Address, Since: leader.Since}
	}
	for _, m := range members {
		role := api.RoleStandby
		if led && m.Instance == leader.Instance {
			role = api.RoleLeader
		}
		info.Instances = append(info.Instances, api.Instance{Instance: m.Instance, Address: m.Address, Role: role, Healthy: m.Healthy, Version: m.Version})
	}
	return info, nil
}

// Resign makes the leader, this instance or another, give leadership up, when
// somebody could take it.
func (c *cluster) Resign(ctx context.Context, reason string) error {
	members, err := c.elector.Members(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", api.ErrUnreachable, err)
	}
	leader, led, err := c.elector.Leader(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", api.ErrUnreachable, err)
	case !led:
		return api.ErrNoLeader
	}
	other := false
	for _, m := range members {
		other = other || (m.Healthy && m.Instance != leader.Instance)
	}
	if !other {
		return api.ErrNoStandby
	}
	if err := c.elector.Resign(ctx, reason); errors.Is(err, election.ErrNotLeader) {
		if err = c.ask(ctx, leader.Instance, reason); err != nil {
			return fmt.Errorf("%w: %w", api.ErrNotLeader, err)
		}
		return nil
	} else if err != nil {
		return fmt.Errorf("resign: %w", err)
	}
	return nil
}
