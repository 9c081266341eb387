package hold

import (
	"sync"
	"time"
)

// logDelay is how long Holds may be unreadable before that is logged: when the program starts,
// the API server does not serve their kind until a moment after it is installed.
const logDelay = 5 * time.Second

// unreadableState is why Holds cannot be read. It is logged once if it lasts.
type unreadableState struct {
	log func(reason, message string)

	mu      sync.Mutex
	message string
	timer   *time.Timer
}

// set records why Holds cannot be read. The same message again changes nothing.
func (u *unreadableState) set(reason, message string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.message == message {
		return
	}
	u.stop()
	u.message = message
	u.timer = time.AfterFunc(logDelay, func() {
		if u.reason() == message {
			u.log(reason, message)
		}
	})
}

// clear records that Holds can be read.
func (u *unreadableState) clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stop()
	u.message = ""
}

func (u *unreadableState) stop() {
	if u.timer != nil {
		u.timer.Stop()
	}
}

// reason is empty if Holds can be read.
func (u *unreadableState) reason() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.message
}
