package postgresql

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// visit is one pass's way to a server.
type visit struct {
	server  server
	servers *pools
	pool    *pool // nil as long as nothing was asked of the server
	objects managed.Objects
}

// connections are those of the server, as long as the pass lasts.
func (v *visit) connections() (*pool, error) {
	if v.pool != nil {
		return v.pool, nil
	}
	var err error
	v.pool, err = v.servers.use(v.server)
	return v.pool, err
}

// close gives them back.
func (v *visit) close() {
	if v.pool != nil {
		v.pool.done()
		v.pool = nil
	}
}

// patience is how long this side waits for an answer: longer than the server takes
// to give up by itself, so that its answer tells what came of it.
func (v *visit) patience() time.Duration { return v.server.Timeout + connectTimeout + 5*time.Second }

// longestLook bounds how long is waited for what a look asks, however long a statement
// that changes something may take: those who are looked at hold a worker.
const longestLook = 45 * time.Second

// on looks at something on a connection to a database; to that of the configuration if
// none is named.
func (v *visit) on(ctx context.Context, database string, look func(context.Context, *pgx.Conn) error) error {
	return v.within(ctx, min(v.patience(), longestLook), database, look)
}

// within runs something on a connection to a database, for so long.
func (v *visit) within(ctx context.Context, limit time.Duration, database string, do func(context.Context, *pgx.Conn) error) error {
	return v.servers.turn(ctx, v.server, func() error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return v.run(ctx, database, do)
	})
}

func (v *visit) run(ctx context.Context, database string, do func(context.Context, *pgx.Conn) error) error {
	pool, err := v.connections()
	if err != nil {
		return &connectError{err}
	}
	if database == "" || database == v.server.Database {
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

// connectError is about a connection that didn't come about.
type connectError struct{ error }

func (e *connectError) Unwrap() error { return e.error }

// call sends what is to be changed as one text, and says what came of it.
func (v *visit) call(ctx context.Context, database, sql string) *external.OpError {
	sent := false
	err := v.within(ctx, v.patience(), database, func(ctx context.Context, conn *pgx.Conn) error {
		sent = true
		return conn.PgConn().Exec(ctx, sql).Close() // which reads all answers, and keeps none
	})
	switch {
	case err == nil:
		return nil
	case !sent:
		return unsent(fmt.Errorf("connect: %w", err))
	}
	return opError(err)
}
