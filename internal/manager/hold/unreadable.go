package hold

import (
	"sync"
	"time"
)

// grace is how long Holds may be unreadable before that is logged: when the program starts,
// the API server doesn't serve their kind for a moment after its CustomResourceDefinition is
// there.
const grace = 5 * time.Second

// unreadable is why Holds can't be read. It is logged once if it lasts.
type unreadable struct {
	log func(reason, message string)

	mu      sync.Mutex
	message string
	timer   *time.Timer
}

// set says why Holds can't be read now; with the same message again, it goes on.
func (u *unreadable) set(reason, message string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.message == message {
		return
	}
	u.stop()
	u.message = message
	u.timer = time.AfterFunc(grace, func() {
		if u.reason() == message {
			u.log(reason, message)
		}
	})
}

// end says that Holds can be read.
func (u *unreadable) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stop()
	u.message = ""
}

func (u *unreadable) stop() {
	if u.timer != nil {
		u.timer.Stop()
	}
}

// reason is empty if Holds can be read.
func (u *unreadable) reason() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.message
}
