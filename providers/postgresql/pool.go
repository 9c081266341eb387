package postgresql

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// idle is how long connections that nobody uses stay open.
const idle = 15 * time.Second

// pools are the connections to servers: one pool for each way to reach one. A pool
// that nobody has used for a while is closed, and so is that of a configuration that
// has changed, which nobody uses any more.
type pools struct {
	allowed Options
	mu      sync.Mutex
	all     map[server]*pool
	turns   map[string]chan struct{} // by namespace
}

// A server that doesn't answer keeps who asks it waiting, and with him a worker of the
// whole program. Whose server that is can make any number of objects for it; of a
// namespace's own servers, so many are asked at a time, and who would be the next gives
// up before long, to come again.
const (
	mostOfANamespace = 3
	longestQueue     = 2 * time.Second
)

// turn does something on a server, if not too much waits for those of its namespace.
func (p *pools) turn(ctx context.Context, s server, do func() error) error {
	if s.Namespace == "" {
		return do()
	}
	p.mu.Lock()
	if p.turns == nil {
		p.turns = map[string]chan struct{}{}
	}
	turns, there := p.turns[s.Namespace]
	if !there {
		turns = make(chan struct{}, mostOfANamespace)
		p.turns[s.Namespace] = turns
	}
	p.mu.Unlock()
	queue := time.NewTimer(longestQueue)
	defer queue.Stop()
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
		return do()
	case <-queue.C:
		return &connectError{fmt.Errorf("%d others of namespace %s wait for its servers to answer; this one comes after them", mostOfANamespace, s.Namespace)}
	case <-ctx.Done():
		return &connectError{context.Cause(ctx)}
	}
}

// pool are the connections of one configuration. Those to the database that it names
// are kept for a while. Those to others are not, as they would be in the way of
// whoever drops or copies one; they are counted.
type pool struct {
	*pgxpool.Pool
	of    *pools
	key   server
	slots chan struct{}
	users int
	timer *time.Timer
}

// use returns the pool of a configuration, which stays open until done is called.
func (p *pools) use(s server) (*pool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if there, ok := p.all[s]; ok {
		there.users++
		if there.timer != nil {
			there.timer.Stop()
		}
		return there, nil
	}
	made, err := newPool(s)
	if err != nil {
		return nil, err
	}
	made.of, made.users = p, 1
	if p.all == nil {
		p.all = map[server]*pool{}
	}
	p.all[s] = made
	return made, nil
}

func newPool(s server) (*pool, error) {
	conn, err := s.dialled(s.Database)
	if err != nil {
		return nil, err
	}
	c, err := pgxpool.ParseConfig(nothing)
	if err != nil {
		return nil, fmt.Errorf("prepare connections: %w", err)
	}
	c.ConnConfig, c.MaxConns, c.MinConns, c.MinIdleConns = conn, s.Connections, 0, 0
	c.MaxConnIdleTime, c.MaxConnLifetime, c.HealthCheckPeriod = idle, 5*time.Minute, idle
	made, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		return nil, fmt.Errorf("prepare connections: %w", err)
	}
	return &pool{Pool: made, key: s, slots: make(chan struct{}, s.Connections)}, nil
}

// done says that a user has no more use for a pool.
func (p *pool) done() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.users--; p.users == 0 {
		p.timer = time.AfterFunc(idle, p.retire)
	}
}

// retire closes a pool, unless somebody has come to use it.
func (p *pool) retire() {
	p.of.mu.Lock()
	unused := p.users == 0 && p.of.all[p.key] == p
	if unused {
		delete(p.of.all, p.key)
	}
	p.of.mu.Unlock()
	if unused {
		p.Close()
	}
}

// dial connects to another database, if there aren't too many already.
func (p *pool) dial(ctx context.Context, database string) (conn *pgx.Conn, release func(), err error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	conn, err = p.key.dial(ctx, database)
	if err != nil {
		<-p.slots
		return nil, nil, err
	}
	return conn, func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(closing) // the server notices by itself
		<-p.slots
	}, nil
}
