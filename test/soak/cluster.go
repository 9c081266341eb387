package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/kube/embedded"
)

// startPlane starts the API server, or starts it again with the same data.
func (s *soak) startPlane(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	s.plane, err = embedded.Start(ctx, embedded.Options{DataDir: filepath.Join(s.dir, "data"), NoFsync: true})
	return err
}

// stopPlane stops the API server, in an orderly manner or at once.
func (s *soak) stopPlane(kill bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	if kill {
		if err := syscall.Kill(s.plane.PID(), syscall.SIGKILL); err != nil {
			return err
		}
		<-s.plane.Done()
		return nil
	}
	return s.plane.Stop(ctx)
}

func (s *soak) resource(k key) dynamic.ResourceInterface {
	r := s.client.Resource(resourceOf(k.kind))
	if k.namespace == "" {
		return r
	}
	return r.Namespace(k.namespace)
}

// retry calls do until the API server accepts or refuses it.
func (s *soak) retry(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	for {
		err := do(ctx)
		if !isTransient(err) {
			return err
		}
		if !pauseFor(ctx, 100*time.Millisecond) {
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// isTransient reports whether a request says nothing about its object.
func isTransient(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	status := apierrors.APIStatus(nil)
	return !errors.As(err, &status) || apierrors.IsConflict(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
}

// pauseFor reports whether the pause has not been cut short.
func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *soak) get(ctx context.Context, k key) (o *unstructured.Unstructured, err error) {
	err = s.retry(ctx, func(ctx context.Context) (err error) {
		o, err = s.resource(k).Get(ctx, k.name, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, err
}

func (s *soak) apply(ctx context.Context, o *unstructured.Unstructured) error {
	return s.retry(ctx, func(ctx context.Context) error {
		_, err := s.resource(keyOf(o)).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "user", Force: true})
		return err
	})
}

func (s *soak) create(ctx context.Context, o *unstructured.Unstructured) error {
	return s.retry(ctx, func(ctx context.Context) error {
		_, err := s.resource(keyOf(o)).Create(ctx, o, metav1.CreateOptions{FieldManager: "user"})
		return err
	})
}

// delete deletes an object; it is no error if there is none.
func (s *soak) delete(ctx context.Context, k key, policy metav1.DeletionPropagation) error {
	err := s.retry(ctx, func(ctx context.Context) error {
		return s.resource(k).Delete(ctx, k.name, metav1.DeleteOptions{PropagationPolicy: &policy})
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// patch merges a change into an object.
func (s *soak) patch(ctx context.Context, k key, change map[string]any) error {
	raw, err := json.Marshal(change)
	if err != nil {
		return err
	}
	return s.retry(ctx, func(ctx context.Context) error {
		_, err := s.resource(k).Patch(ctx, k.name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "somebody"})
		return err
	})
}

// setFinalizer adds or removes the finalizer of another controller.
func (s *soak) setFinalizer(ctx context.Context, k key, present bool) error {
	return s.retry(ctx, func(ctx context.Context) error {
		o, err := s.resource(k).Get(ctx, k.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var finalizers []any
		for _, f := range o.GetFinalizers() {
			if f != otherFinalizer {
				finalizers = append(finalizers, f)
			}
		}
		if present {
			finalizers = append(finalizers, otherFinalizer)
		}
		if len(finalizers) == len(o.GetFinalizers()) {
			return nil
		}
		raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers, "resourceVersion": o.GetResourceVersion()}})
		if err != nil {
			return err
		}
		_, err = s.resource(k).Patch(ctx, k.name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "somebody"})
		return err
	})
}

// list returns the objects of a kind in the namespaces of the run; none while the kind is not served.
func (s *soak) list(ctx context.Context, kind string) (objects []unstructured.Unstructured, err error) {
	var all *unstructured.UnstructuredList
	err = s.retry(ctx, func(ctx context.Context) (err error) {
		all, err = s.client.Resource(resourceOf(kind)).List(ctx, metav1.ListOptions{})
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list %s: %w", kind, err)
	}
	for _, o := range all.Items {
		if strings.HasPrefix(o.GetNamespace(), "soak-") && o.GetName() != "kube-root-ca.crt" {
			objects = append(objects, o)
		}
	}
	return objects, nil
}

// await waits until a check passes. The states that it waits for span kinds that come and go, so that
// they are read repeatedly and not watched.
func (s *soak) await(ctx context.Context, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // once it has ended, the check fails because of that
			last = err
		}
		if ctx.Err() != nil || !pauseFor(ctx, 200*time.Millisecond) {
			return fmt.Errorf("%s: not within %s: %w", what, s.patience, last)
		}
	}
}
