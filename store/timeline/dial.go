package timeline

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/redis/go-redis/v9"
)

// DialConfig says how to reach Redis.
type DialConfig struct {
	// Addrs is one address for a single server, several for Cluster, or the
	// Sentinels when Master names the group they watch.
	Addrs              []string
	Master             string
	Username, Password string
	DB                 int
	TLS                *tls.Config
	// Name is the client's name in CLIENT LIST.
	Name string
	// CallTimeout bounds one call.
	CallTimeout time.Duration
}

// silent takes what go-redis would print on standard error by itself, some
// dozen lines a second while Redis is away, in the middle of our own log. What
// matters of it comes back as errors, and those are logged.
type silent struct{}

// Printf prints nothing.
func (silent) Printf(context.Context, string, ...any) {}

// Dial makes a client; it connects when it is first used. go-redis repeats
// nothing by itself: what may be repeated, only the caller knows (a lost reply
// would run a script twice). Reads never go to a replica, which may lag behind
// the term.
func Dial(cfg DialConfig) redis.UniversalClient {
	redis.SetLogger(silent{}) // go-redis has one logger for all its clients
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: cfg.Addrs, MasterName: cfg.Master, Username: cfg.Username, Password: cfg.Password, DB: cfg.DB,
		ClientName: cfg.Name, TLSConfig: cfg.TLS,
		MaxRetries: -1, ContextTimeoutEnabled: true,
		DialTimeout: cfg.CallTimeout, ReadTimeout: cfg.CallTimeout, WriteTimeout: cfg.CallTimeout, PoolTimeout: cfg.CallTimeout,
		PoolSize: 32, MinIdleConns: 1, ConnMaxIdleTime: 5 * time.Minute,
	})
}
