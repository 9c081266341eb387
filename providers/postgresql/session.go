package postgresql

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// session has the connections of one reconcile to a server.
type session struct {
	server  server
	servers *pools
	pool    *pool // nil until the first query
	objects managed.Objects
	sharing sharing
	// isForeign reports whether the observed resource must not be adopted, and is not the managed resource's own.
	isForeign bool
}

// close releases it.
func (sess *session) acquirePool() (*pool, error) {
	if sess.pool != nil {
		return sess.pool, nil
	}
	var err error
	sess.pool, err = sess.servers.acquire(sess.server)
	return sess.pool, err
}

func (sess *session) close() {
	if sess.pool != nil {
		sess.pool.release()
		sess.pool = nil
	}
}

// The client waits longer for an answer than the statement timeout on the server, because the outcome is unknown
// without an answer.
func (sess *session) callTimeout() time.Duration {
	return sess.server.Timeout + connectTimeout + 5*time.Second
}

// maxReadTime limits the reads of an observation, even if the statement timeout is longer: each
// occupies a worker.
const maxReadTime = 45 * time.Second

// An empty name stands for the configuration's database.
func (sess *session) read(ctx context.Context, database string, do func(context.Context, *pgx.Conn) error) error {
	return sess.withConnection(ctx, min(sess.callTimeout(), maxReadTime), database, do)
}

func (sess *session) withConnection(ctx context.Context, limit time.Duration, database string, do func(context.Context, *pgx.Conn) error) error {
	return sess.servers.withSlot(ctx, sess.server, func() error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return sess.run(ctx, database, do)
	})
}

func (sess *session) run(ctx context.Context, database string, do func(context.Context, *pgx.Conn) error) error {
	pool, err := sess.acquirePool()
	if err != nil {
		return &connectError{err}
	}
	if database == "" || database == sess.server.Database {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return &connectError{err}
		}
		defer conn.Release()
		return do(ctx, conn.Conn())
	}
	conn, release, err := pool.dial(ctx, database)
	if err != nil {
		return &connectError{err}
	}
	defer release()
	return do(ctx, conn)
}

type connectError struct{ error }

func (e *connectError) Unwrap() error { return e.error }

// The error is classified.
func (sess *session) exec(ctx context.Context, database, sql string) *external.OpError {
	sent := false
	err := sess.withConnection(ctx, sess.callTimeout(), database, func(ctx context.Context, conn *pgx.Conn) error {
		sent = true
		return conn.PgConn().Exec(ctx, sql).Close() // Close reads all answers
	})
	switch {
	case err == nil:
		return nil
	case !sent:
		return notSentError(fmt.Errorf("connect: %w", err))
	}
	return opError(err)
}
