package ui

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"
)

// Bounds of viewers.
const (
	maxSessions       = 64
	maxUserSessions   = 16               // of one viewer
	maxStreams        = 64               // of all viewers
	maxSessionStreams = 16               // of one session
	sessionLimit      = 12 * time.Hour   // how long a login lasts
	idleLimit         = 30 * time.Minute // how long one with a token lasts without a request or an open stream
	maxRequest        = 64 << 10         // bytes of the body of a request
	readLimit         = 10 * time.Second // for that body
)

// Session is a viewer who has logged in.
type Session struct {
	// User is the viewer's name, as the API server knows it; it may be unknown.
	User string
	Cluster
	// Check reports why the viewer may no longer read, as ErrRefused, or that this is not known. Nil if the viewer always may.
	Check func(context.Context) error

	fixedID  string // the id, if it follows from the token; otherwise it is a random one
	expires  time.Time
	lastUsed time.Time
	checked  time.Time
	streams  map[string]*stream
	ended    bool
}

// errTooMany says that nobody else can log in.
var errTooMany = fmt.Errorf("%d viewers are logged in, which is the limit; try again later", maxSessions)

// sessions are the viewers. They are in memory only.
type sessions struct {
	now func() time.Time

	mu      sync.Mutex
	all     map[string]*Session
	streams int
}

// add adds a session and returns its id. The oldest one of the same viewer ends if that has too many; those of others stay.
func (s *sessions) add(session *Session) (id string, err error) {
	id = session.fixedID
	if id == "" {
		id = rand.Text() + rand.Text() // more than 256 bits
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	s.makeRoom(session.User)
	if len(s.all) >= maxSessions {
		return "", errTooMany
	}
	now := s.now()
	session.expires, session.lastUsed, session.checked, session.streams = now.Add(sessionLimit), now, now, map[string]*stream{}
	s.end(id)
	s.all[id] = session
	return id, nil
}

// makeRoom ends the oldest session of a viewer who has as many as one may have.
func (s *sessions) makeRoom(user string) {
	count, oldest := 0, ""
	for id, x := range s.all {
		if x.User != user {
			continue
		}
		count++
		if oldest == "" || x.expires.Before(s.all[oldest].expires) {
			oldest = id
		}
	}
	if count >= maxUserSessions {
		s.end(oldest)
	}
}

// expire ends the sessions that have lasted long enough, and those with a token that nobody uses.
func (s *sessions) expire() {
	now := s.now()
	for id, session := range s.all {
		isIdle := session.Check != nil && len(session.streams) == 0 && now.Sub(session.lastUsed) >= idleLimit
		if isIdle || !now.Before(session.expires) {
			s.end(id)
		}
	}
}

func (s *sessions) end(id string) {
	if session := s.all[id]; session != nil {
		session.ended = true
		for _, stream := range session.streams {
			stream.stop()
		}
		delete(s.all, id)
	}
}

// find returns a session, which counts as a use of it; nil if there is none.
func (s *sessions) find(id string) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	session := s.all[id]
	if session != nil {
		session.lastUsed = s.now()
	}
	return session
}

// due returns whether a session must be checked again, which the caller then does.
func (s *sessions) due(session *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return session.Check != nil && s.now().Sub(session.checked) >= checkInterval
}

func (s *sessions) passed(session *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session.checked = s.now()
}

// watching ends the sessions whose time is up, and returns those with open streams by their ids.
func (s *sessions) watching() map[string]*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	out := map[string]*Session{}
	for id, session := range s.all {
		if len(session.streams) > 0 {
			out[id] = session
		}
	}
	return out
}

// logOut ends a session with its streams.
func (s *sessions) logOut(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(id)
}

// logOutAll ends all sessions.
func (s *sessions) logOutAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.all {
		s.end(id)
	}
}

// open adds a stream to a session; false if there are too many, or if the session has ended.
func (s *sessions) open(session *Session, id string, st *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session.ended || s.streams >= maxStreams || len(session.streams) >= maxSessionStreams {
		return false
	}
	s.streams++
	session.streams[id] = st
	return true
}

func (s *sessions) close(session *Session, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams--
	session.lastUsed = s.now()
	delete(session.streams, id)
}

// stream returns an open stream of a session; nil if there is none.
func (s *sessions) stream(session *Session, id string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return session.streams[id]
}
