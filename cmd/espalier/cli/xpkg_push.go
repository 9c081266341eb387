package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
)

// pushFlags are the flags of xpkg push.
type pushFlags struct {
	files       []string
	annotations map[string]string
	registry    registryFlags
}

func newXpkgPush() *cobra.Command {
	var flags pushFlags
	cmd := &cobra.Command{
		Use:   "push REGISTRY/REPOSITORY:TAG",
		Short: "Push a package to a registry",
		Long: "Pushes a file with a package, and prints the reference with its digest. Several files,\n" +
			"each for another platform, become one package for all of these platforms.\n\n" +
			"Credentials are those of docker login.",
		Example: "  espalier xpkg push registry.example.org/team/platform:v1.0.0 -f platform.xpkg",
		Args:    oneReference,
		RunE:    func(cmd *cobra.Command, args []string) error { return pushPackages(cmd, args[0], flags) },
	}
	cmd.Flags().StringSliceVarP(&flags.files, "package-files", "f", nil, "file to push; the only one of this folder by default; repeatable")
	cmd.Flags().StringToStringVarP(&flags.annotations, "oci-annotation", "a", nil, "annotation KEY=VALUE of the manifest; repeatable")
	flags.registry.add(cmd)
	_ = cmd.MarkFlagFilename("package-files", "xpkg")
	_ = cmd.RegisterFlagCompletionFunc("oci-annotation", cobra.NoFileCompletions)
	return cmd
}

// oneReference is for commands with a reference, which a shell cannot complete.
func oneReference(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return &usageError{fmt.Errorf("%s takes one reference, not %d arguments", cmd.Name(), len(args))}
	}
	return nil
}

func pushPackages(cmd *cobra.Command, to string, flags pushFlags) error {
	reference, err := xpkg.ParseReference(to)
	if err != nil {
		return &usageError{err}
	}
	files := flags.files
	if len(files) == 0 {
		if files, err = filepath.Glob("*" + xpkg.Extension); err != nil || len(files) != 1 {
			return &usageError{fmt.Errorf("this folder has %d packages; name the file with -f", len(files))}
		}
	}
	images := make([]v1.Image, len(files))
	var problems []error
	for i, file := range files {
		image, _, found, err := readPackage(file)
		if err == nil {
			err = xpkg.Errors(found, false)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", strings.TrimPrefix(file, "./"), err))
		}
		images[i] = image
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	client, ctx, cancel, err := flags.registry.client(cmd.Context(), nil)
	if err != nil {
		return err
	}
	defer cancel()
	digest, err := client.Push(ctx, reference, images, flags.annotations, authn.DefaultKeychain)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s@%s\n", reference, digest)
	return err
}
