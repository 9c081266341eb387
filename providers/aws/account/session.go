package account

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// Limits of sessions.
const (
	// idle is how long an unused session stays.
	idle = 30 * time.Minute
	// maxSessions bounds the sessions, and maxNamespaceSessions the sessions of a namespace's ProviderConfigs: the ones
	// unused for longest end first.
	maxSessions          = 500
	maxNamespaceSessions = 50
	// reload is how often the environment and the files of the SDK are read for credentials that do not
	// expire.
	reload = 5 * time.Minute
	// identifyTimeout limits how long a session may take to determine its account, and retryIdentify is how
	// long a failure counts for all managed resources.
	identifyTimeout = 20 * time.Second
	retryIdentify   = 5 * time.Second
	// retryTurn is the delay after waiting in vain for another managed resource's request.
	retryTurn = 5 * time.Second
)

// Equal settings share a session: a changed configuration or Secret has another one.
type sessions struct {
	mu    sync.Mutex
	all   map[[sha256.Size]byte]*session
	swept time.Time
}

// It holds the credentials of a configuration, and the connections to its services.
type session struct {
	// namespace is the ProviderConfig's; empty for a ClusterProviderConfig.
	namespace string
	config    aws.Config
	redactor  *redactor
	transport *http.Transport
	// ambient reports whether credentials come from the environment or files.
	ambient       bool
	created, used time.Time // under sessions.mu

	// turn is held while the fields below are used.
	turn     chan struct{}
	known    identity
	failed   error
	failedAt time.Time
}

type identity struct{ accessKey, account, partition string }

func (all *sessions) get(ctx context.Context, o Options, s settings) (*session, error) {
	key, now := s.digest(), o.Now()
	all.mu.Lock()
	defer all.mu.Unlock()
	all.sweep(now)
	if found := all.all[key]; found != nil {
		found.used = now
		if !found.ambient || now.Sub(found.created) < reload {
			return found, nil
		}
	}
	transport, err := o.newTransport(s)
	if err != nil {
		return nil, err
	}
	created := &session{namespace: s.Namespace, redactor: &redactor{}, transport: transport, created: now, used: now, turn: make(chan struct{}, 1)}
	if created.config, err = o.newConfig(ctx, s, created.redactor, transport); err != nil {
		return nil, err
	}
	source := s.Spec.Credentials.Source
	created.ambient = source == v1alpha1.CredentialsDefault || source == v1alpha1.CredentialsProfile
	if all.all == nil {
		all.all = map[[sha256.Size]byte]*session{}
	}
	all.end(key)
	all.all[key] = created
	all.limit(s.Namespace)
	return created, nil
}

// Too many sessions, of a namespace or in all, are ended.
func (all *sessions) limit(namespace string) {
	if namespace != "" {
		isOwn := func(s *session) bool { return s.namespace == namespace }
		own := 0
		for _, s := range all.all {
			if isOwn(s) {
				own++
			}
		}
		for ; own > maxNamespaceSessions; own-- {
			all.endOldest(isOwn)
		}
	}
	for len(all.all) > maxSessions {
		all.endOldest(func(*session) bool { return true })
	}
}

func (all *sessions) sweep(now time.Time) {
	if now.Sub(all.swept) < time.Minute {
		return
	}
	all.swept = now
	for key, s := range all.all {
		if now.Sub(s.used) > idle {
			all.end(key)
		}
	}
}

// It ends the session, of those that may end, that was not used for longest.
func (all *sessions) endOldest(mayEnd func(*session) bool) {
	var oldest [sha256.Size]byte
	var at *session
	for key, s := range all.all {
		if mayEnd(s) && (at == nil || s.used.Before(at.used)) {
			oldest, at = key, s
		}
	}
	all.end(oldest)
}

// Requests in flight are completed.
func (all *sessions) end(key [sha256.Size]byte) {
	if s := all.all[key]; s != nil {
		s.transport.CloseIdleConnections()
		delete(all.all, key)
	}
}

var accountPattern = regexp.MustCompile(`^[0-9]{12}$`)

// A request is made only for other credentials than the last, and by one goroutine at a time.
func (s *session) identify(ctx context.Context, now func() time.Time) (identity, error) {
	timeout := time.NewTimer(maxQueueTime)
	defer timeout.Stop()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-timeout.C:
		return identity{}, &external.OpError{
			Class: external.Rejected, Message: "another managed resource waits for the account of the credentials; this one is retried", RetryAfter: retryTurn,
		}
	case <-ctx.Done():
		return identity{}, context.Cause(ctx)
	}
	if s.failed != nil && now().Sub(s.failedAt) < retryIdentify {
		return identity{}, s.failed
	}
	limited, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	found, err := s.callerIdentity(limited)
	if s.failed = nil; err != nil && ctx.Err() == nil {
		s.failed, s.failedAt = err, now()
	}
	if err == nil {
		s.known = found
	}
	return found, err
}

func (s *session) callerIdentity(ctx context.Context) (identity, error) {
	keys, err := s.config.Credentials.Retrieve(ctx)
	if err != nil {
		return identity{}, fmt.Errorf("get the credentials: %w", s.redactor.error(err))
	}
	if keys.AccessKeyID == s.known.accessKey {
		return s.known, nil
	}
	out, err := sts.NewFromConfig(s.config).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return identity{}, fmt.Errorf("determine the account of the credentials: %w", err)
	}
	account, arn := aws.ToString(out.Account), strings.SplitN(aws.ToString(out.Arn), ":", 3)
	if !accountPattern.MatchString(account) {
		return identity{}, errors.New("determine the account of the credentials: the response of the Security Token Service has no account number")
	}
	id := identity{accessKey: keys.AccessKeyID, account: account, partition: "aws"}
	if len(arn) == 3 && arn[0] == "arn" {
		id.partition = arn[1]
	}
	return id, nil
}
