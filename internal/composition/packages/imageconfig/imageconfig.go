// Package imageconfig decides what the ImageConfigs of a cluster mean for an image.
//
// Pure: it decides from values alone.
package imageconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/pkg/v1beta1"
)

// Config is an ImageConfig.
type Config struct {
	Name string
	Spec v1beta1.ImageConfigSpec
}

// Reasons for which an ImageConfig is used, as statuses have them.
const (
	ReasonRewrite       = "RewriteImage"
	ReasonSetPullSecret = "SetImagePullSecret"
	ReasonVerify        = "VerifyImage"
	ReasonRuntime       = "ConfigureRuntime"
)

// Resolved is what ImageConfigs mean for an image. The same is used to fetch the package, to verify its signature and to run it.
type Resolved struct {
	// Image is where the image is fetched from.
	Image string
	// PullSecret names the Secret with the credentials for it; empty without one.
	PullSecret string
	// Verification is how the signature is verified, and Runtime what the image runs with; nil if no ImageConfig says it.
	Verification *v1beta1.ImageVerification
	Runtime      *v1.RuntimeConfigReference
	// Applied are the ImageConfigs that were used.
	Applied []v1.ImageConfigRef
}

// Resolve decides for the image of a package. For each purpose it uses the ImageConfig with the longest prefix of the image; of several, the first
// by name. All purposes but the rewriting itself are about the rewritten image.
func Resolve(image string, all []Config) (Resolved, error) {
	out := Resolved{Image: image}
	use := func(c *Config, reason string) {
		out.Applied = append(out.Applied, v1.ImageConfigRef{Name: c.Name, Reason: reason})
	}
	c, prefix := longest(image, all, func(s *v1beta1.ImageConfigSpec) bool { return s.RewriteImage != nil })
	if c != nil {
		if c.Spec.RewriteImage.Prefix == "" {
			return out, fmt.Errorf("ImageConfig %s: spec.rewriteImage.prefix is empty", c.Name)
		}
		out.Image = c.Spec.RewriteImage.Prefix + strings.TrimPrefix(image, prefix)
		use(c, ReasonRewrite)
	}
	c, _ = longest(out.Image, all, func(s *v1beta1.ImageConfigSpec) bool {
		return s.Registry != nil && s.Registry.Authentication != nil && s.Registry.Authentication.PullSecretRef.Name != ""
	})
	if c != nil {
		out.PullSecret = c.Spec.Registry.Authentication.PullSecretRef.Name
		use(c, ReasonSetPullSecret)
	}
	c, _ = longest(out.Image, all, func(s *v1beta1.ImageConfigSpec) bool { return s.Verification != nil })
	if c != nil {
		if out.Verification = c.Spec.Verification; out.Verification.Cosign == nil {
			return out, fmt.Errorf("ImageConfig %s: spec.verification.cosign is missing", c.Name) // nothing would be verified
		}
		use(c, ReasonVerify)
	}
	c, _ = longest(out.Image, all, func(s *v1beta1.ImageConfigSpec) bool { return s.Runtime != nil && s.Runtime.ConfigRef != nil })
	if c != nil {
		out.Runtime = c.Spec.Runtime.ConfigRef
		use(c, ReasonRuntime)
	}
	return out, nil
}

// longest returns the ImageConfig with a part whose prefix of the image is longest, and the prefix.
func longest(image string, all []Config, has func(*v1beta1.ImageConfigSpec) bool) (best *Config, prefix string) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Config) int { return cmp.Compare(a.Name, b.Name) })
	for i := range all {
		if !has(&all[i].Spec) {
			continue
		}
		for _, m := range all[i].Spec.MatchImages {
			if strings.HasPrefix(image, m.Prefix) && len(m.Prefix) > len(prefix) {
				best, prefix = &all[i], m.Prefix
			}
		}
	}
	return best, prefix
}
