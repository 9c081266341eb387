package cloud

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// Options are how to open a cloud. The zero value will do.
type Options struct {
	// Now is the clock; nil is time.Now. When it runs backwards, the cloud's time stands
	// still until it has caught up. It is called while the cloud is locked, and must not
	// call the cloud.
	Now func() time.Time
	// Behaviours are set at once; other types keep what they had, at first the zero
	// Behaviour.
	Behaviours map[Type]Behaviour
	// Journal is where the calls are noted; nil makes one that keeps 10,000.
	Journal *Journal
}

// Cloud is a cloud in a directory. It is safe for concurrent use: each call is one step,
// and they follow one another.
//
// Errors of calls are of type [*Error] throughout. If the disk fails, the call that has
// seen it and all after it answer Unavailable; what is on disk shows when the directory
// is opened again.
type Cloud struct {
	now     func() time.Time
	journal *Journal
	lock    lock

	mu     sync.Mutex
	world  *world
	ledger *ledger
	// down is why the cloud can't go on: it is closed, or its disk has failed.
	down error
}

// ErrClosed is why a closed cloud is Unavailable.
var ErrClosed = errors.New("the cloud is closed")

// Open opens the cloud in a directory, which is made if there is none. One process at a
// time has it, and one [Cloud] in that process.
//
// Errors: [ErrLocked], if it is open already; [*DamageError], if the directory holds
// what no cloud has written; an [*Error] with InvalidParameter for behaviours that make
// no sense; and those of the file system.
func Open(dir string, options Options) (*Cloud, error) {
	c := &Cloud{now: options.Now, journal: options.Journal}
	if c.now == nil {
		c.now = time.Now
	}
	if c.journal == nil {
		c.journal = NewJournal(10_000)
	}
	var err error
	if c.lock, err = take(dir); err != nil {
		return nil, err
	}
	if c.world, c.ledger, err = openLedger(dir); err != nil {
		return nil, errors.Join(err, c.lock.release())
	}
	c.world.plan()
	err = c.steer(func(w *world, _ time.Time) error {
		for _, t := range slices.Sorted(maps.Keys(options.Behaviours)) {
			if err := w.setBehaviour(t, options.Behaviours[t]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close lets go of the directory. It writes nothing: all that was answered is on disk.
// Calls that come later are Unavailable. Closing twice is once too often, but harmless.
func (c *Cloud) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(c.down, ErrClosed) {
		return nil
	}
	c.down = ErrClosed
	return errors.Join(c.ledger.close(), c.lock.release())
}

// Journal is where the cloud notes its calls.
func (c *Cloud) Journal() *Journal { return c.journal }

// NextChange is when something changes next by itself: an operation ends, a late call
// arrives, reads begin or cease to show a resource, a name is free. It is zero if
// nothing will. Tokens and operations that are forgotten don't count.
func (c *Cloud) NextChange() time.Time {
	var out time.Time
	// A cloud that is down changes no more.
	_ = c.steer(func(w *world, _ time.Time) error {
		out = w.next()
		return nil
	})
	return out
}

// Now is what the cloud's clock shows.
func (c *Cloud) Now() time.Time { return c.now() }
