package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	containers "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/composition/packages/registry"
	"github.com/espalier-dev/espalier/internal/composition/packages/resolve"
	"github.com/espalier-dev/espalier/internal/composition/packages/signature"
	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
	"github.com/espalier-dev/espalier/internal/object"
)

// Limits of reads.
const (
	// readTimeout bounds one read of a package or of tags.
	readTimeout = 5 * time.Minute
	// maxReads bounds the reads at the same time.
	maxReads = 4
	// minRetry and maxRetry are the first and the longest time between two attempts.
	minRetry, maxRetry = 2 * time.Second, 5 * time.Minute
	// refresh is how long the digest of a tag is used with the policy Always, and tags that were listed in any case.
	refresh = time.Minute
	// maxAnswers bounds what is remembered.
	maxAnswers = 2000
)

// Registry reads packages; *registry.Client does.
type Registry interface {
	Fetch(context.Context, registry.Request) (*registry.Fetched, error)
	Tags(context.Context, registry.Request) ([]string, error)
	Signatures(context.Context, registry.Request, containers.Hash) (signature.Found, error)
}

// Content is what is remembered of a package.
type Content struct {
	Digest       string
	Package      *xpkg.Package
	Dependencies []resolve.Dependency
	// Problem is why the package cannot be installed, and Warnings what it contains in vain.
	Problem  error
	Warnings []string
}

// Images reads packages and tags from registries, apart from reconciles, and remembers what it has read. It is safe for
// concurrent use.
type Images struct {
	Registry Registry
	// Enqueue requests a reconcile of an object that has asked, after an answer. It must not block.
	Enqueue func(object.Key)
	Now     func() time.Time
	// Context ends all reads.
	Context context.Context

	mu      sync.Mutex
	answers map[question]*answer
	slots   chan struct{}
}

type question struct {
	reference string
	policy    corev1.PullPolicy
	tags      bool
	// credentials identifies the keychain and the keys.
	credentials string
}

type answer struct {
	content Content
	tags    []string
	known   bool
	err     error
	// reading says that an attempt is in progress, and at when the last one ended.
	reading  bool
	at, used time.Time
	failures int
	waiting  map[object.Key]bool
}

// Request is a registry.Request of an object, with what identifies the keychain.
type Request struct {
	registry.Request
	For         object.Key
	Credentials string
	// Authorities: one of them must have signed the package; nil for no verification.
	Authorities []signature.Authority
}

// Package returns what is known of a package. It reads what is not, or is too old, and then enqueues who has asked.
func (i *Images) Package(r Request) resolve.Answer[Content] {
	a := i.get(question{r.Reference.String(), r.Policy, false, r.Credentials}, r)
	return resolve.Answer[Content]{Value: a.content, Known: a.known, Problem: text(a)}
}

// Installed forgets the objects of a package, which take much memory. WithObjects reads them again.
func (i *Images) Installed(r Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if a := i.answers[question{r.Reference.String(), r.Policy, false, r.Credentials}]; a != nil {
		a.content.Package = nil
	}
}

// WithObjects is Package for who needs the objects.
func (i *Images) WithObjects(r Request) resolve.Answer[Content] {
	a := i.Package(r)
	if !a.Known || a.Value.Package != nil {
		return a
	}
	i.mu.Lock()
	if known := i.answers[question{r.Reference.String(), r.Policy, false, r.Credentials}]; known != nil && !known.reading {
		known.known = false
	}
	i.mu.Unlock()
	return i.Package(r)
}

// Tags returns the tags of a source.
func (i *Images) Tags(r Request) resolve.Answer[[]string] {
	a := i.get(question{r.Reference.Source, r.Policy, true, r.Credentials}, r)
	return resolve.Answer[[]string]{Value: a.tags, Known: a.known, Problem: text(a)}
}

func text(a answer) string {
	if a.err == nil {
		return ""
	}
	return a.err.Error()
}

func (i *Images) get(q question, r Request) answer {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.answers == nil {
		i.answers, i.slots = map[question]*answer{}, make(chan struct{}, maxReads)
	}
	a := i.answers[q]
	if a == nil {
		i.forget()
		a = &answer{}
		i.answers[q] = a
	}
	now := i.Now()
	a.used = now
	if a.waiting == nil {
		a.waiting = map[object.Key]bool{}
	}
	a.waiting[r.For] = true
	switch {
	case a.reading:
	case !a.known && a.err == nil, a.err != nil && !now.Before(a.at.Add(backoff(a.failures))), a.known && isChanging(q) && now.Sub(a.at) >= refresh:
		a.reading = true
		go i.read(q, r, a)
	}
	return *a
}

// isChanging reports whether the answer may be another one later.
func isChanging(q question) bool { return q.tags || q.policy == corev1.PullAlways }

func backoff(failures int) time.Duration { return min(minRetry<<min(max(failures-1, 0), 10), maxRetry) }

// read does not hold the lock while it reads.
func (i *Images) read(q question, r Request, a *answer) {
	next := answer{failures: a.failures}
	select {
	case i.slots <- struct{}{}:
		next.content, next.tags, next.err = i.attempt(q, r)
		<-i.slots
	case <-i.Context.Done():
		next.err = context.Cause(i.Context)
	}
	i.mu.Lock()
	a.reading, a.at, a.err = false, i.Now(), next.err
	if next.err != nil {
		a.failures++ // what was known stays
	} else {
		a.known, a.failures, a.content, a.tags = true, 0, next.content, next.tags
	}
	wait, waiting := backoff(a.failures), slices.Collect(maps.Keys(a.waiting))
	if next.err == nil {
		a.waiting = nil
	}
	i.mu.Unlock()
	again := func() {
		for _, key := range waiting {
			i.Enqueue(key)
		}
	}
	again()
	if next.err != nil && i.Context.Err() == nil {
		timer := time.AfterFunc(wait, again)
		context.AfterFunc(i.Context, func() { timer.Stop() })
	}
}

func (i *Images) attempt(q question, r Request) (c Content, tags []string, err error) {
	ctx, cancel := context.WithTimeout(i.Context, readTimeout)
	defer cancel()
	if q.tags {
		tags, err = i.Registry.Tags(ctx, r.Request)
		return c, tags, err
	}
	fetched, err := i.Registry.Fetch(ctx, r.Request)
	if err != nil {
		return c, nil, err
	}
	c.Digest = fetched.Digest.String()
	if r.Authorities != nil {
		found, err := i.Registry.Signatures(ctx, r.Request, fetched.Digest)
		if err != nil {
			return Content{}, nil, fmt.Errorf("read the signatures of %s: %w", r.Reference, err)
		}
		if err := signature.Verify(c.Digest, r.Authorities, found); err != nil {
			return Content{}, nil, fmt.Errorf("verify %s: %w", r.Reference, err)
		}
	}
	parsed, problems := xpkg.Parse(xpkg.File{Name: "package.yaml", Text: string(fetched.Stream)})
	c.Package, c.Problem = parsed, xpkg.Errors(problems, false)
	for _, p := range problems {
		if p.Warning {
			c.Warnings = append(c.Warnings, p.String())
		}
	}
	for _, d := range parsed.Dependencies {
		c.Dependencies = append(c.Dependencies, resolve.Dependency{APIVersion: d.APIVersion, Kind: d.Kind, Source: d.Source, Constraint: d.Version})
	}
	return c, nil, nil
}

// forget drops what was not used for the longest time. The lock is held.
func (i *Images) forget() {
	if len(i.answers) < maxAnswers {
		return
	}
	var oldest question
	at := i.Now()
	for q, a := range i.answers {
		if !a.reading && a.used.Before(at) {
			oldest, at = q, a.used
		}
	}
	delete(i.answers, oldest)
}

// parseReference returns the reference of an image, or why it is none.
func parseReference(image string) (xpkg.Reference, error) {
	r, err := xpkg.ParseReference(image)
	if err == nil && r.Version() == "" {
		err = fmt.Errorf("the reference %q has neither a tag nor a digest", image)
	}
	return r, err
}
