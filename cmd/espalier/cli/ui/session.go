package ui

import (
	"crypto/rand"
	"sync"
	"time"
)

// Bounds of viewers.
const (
	maxSessions       = 32
	maxStreams        = 64             // of all viewers
	maxSessionStreams = 16             // of one viewer
	sessionLimit      = 12 * time.Hour // how long a login lasts
	maxRequest        = 64 << 10       // bytes of the body of a request
)

// Session is a viewer who has logged in.
type Session struct {
	// User is the viewer's name, as the API server knows it; it may be unknown.
	User string
	Cluster

	expires time.Time
	streams map[string]*stream
}

// sessions are the viewers. They are in memory only.
type sessions struct {
	now func() time.Time

	mu      sync.Mutex
	all     map[string]*Session
	streams int
}

// add adds a session and returns its id. The oldest one ends if there are too many.
func (s *sessions) add(session *Session) (id string) {
	id = rand.Text() + rand.Text() // more than 256 bits
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	for len(s.all) >= maxSessions {
		oldest := ""
		for other, x := range s.all {
			if oldest == "" || x.expires.Before(s.all[oldest].expires) {
				oldest = other
			}
		}
		s.end(oldest)
	}
	session.expires, session.streams = s.now().Add(sessionLimit), map[string]*stream{}
	s.all[id] = session
	return id
}

// expire ends the sessions that have lasted long enough.
func (s *sessions) expire() {
	for id, session := range s.all {
		if !s.now().Before(session.expires) {
			s.end(id)
		}
	}
}

func (s *sessions) end(id string) {
	if session := s.all[id]; session != nil {
		for _, stream := range session.streams {
			stream.stop()
		}
		delete(s.all, id)
	}
}

// find returns a session; nil if there is none.
func (s *sessions) find(id string) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	return s.all[id]
}

// logOut ends a session with its streams.
func (s *sessions) logOut(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(id)
}

// open adds a stream to a session; false if there are too many.
func (s *sessions) open(session *Session, id string, st *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams >= maxStreams || len(session.streams) >= maxSessionStreams {
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
	delete(session.streams, id)
}

// stream returns an open stream of a session; nil if there is none.
func (s *sessions) stream(session *Session, id string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return session.streams[id]
}
