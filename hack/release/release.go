package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// checksums is the file with the digests of all others, in the format of sha256sum.
const checksums = "SHA256SUMS"

func (o *options) sbomName(b *built) string { return b.name(o) + ".cdx.json" }

func buildRelease(ctx context.Context, o *options) error {
	all, err := buildAll(ctx, o, program, awsProgram, controlPlane)
	if err != nil {
		return err
	}
	texts, err := printAll(ctx, all)
	if err != nil {
		return err
	}
	return writeRelease(o, all, texts)
}

// writeRelease writes the files of a release, and removes those of an earlier one.
func writeRelease(o *options, all []*built, texts printed) error {
	files := map[string][]byte{}
	archives := map[platform]string{}
	for _, b := range all {
		var err error
		if files[o.sbomName(b)], err = sbom(o, b); err != nil {
			return err
		}
		if b.program == controlPlane {
			continue // it is in the archive of espalier
		}
		contents, err := archiveFiles(o, b, all, texts.completions)
		if err != nil {
			return err
		}
		name, content, err := archive(o, b, contents)
		if err != nil {
			return err
		}
		files[name] = content
		if b.program == program {
			archives[b.platform] = name
		}
	}
	files[program+"_"+o.version+"_crds.yaml"] = texts.crds
	for name, script := range texts.completions {
		files["completions/"+name] = script
	}
	if o.baseURL != "" {
		manifest, err := krewManifest(o, archives, files)
		if err != nil {
			return err
		}
		files["krew/"+program+".yaml"] = manifest
	} else {
		fmt.Println("no krew manifest: --base-url does not say where the archives will be downloaded from")
	}
	if err := addChart(o, files); err != nil {
		return err
	}
	if err := removeRelease(o.output); err != nil {
		return err
	}
	if err := addImage(o, all, files); err != nil {
		return err
	}
	for name, content := range files {
		if err := write(filepath.Join(o.output, filepath.FromSlash(name)), content); err != nil {
			return err
		}
	}
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(files[name]), name)
	}
	fmt.Print(sums.String())
	return write(filepath.Join(o.output, checksums), []byte(sums.String()))
}

func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// removeRelease removes the output of an earlier release. A directory with something else is an error.
func removeRelease(directory string) error {
	entries, err := os.ReadDir(directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		switch name := entry.Name(); {
		case name == checksums, name == "completions", name == "krew", name == "image", strings.HasPrefix(name, program+"_"), strings.HasPrefix(name, program+"-"):
			if err := os.RemoveAll(filepath.Join(directory, name)); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s is not of a release; remove it, or choose another --output", filepath.Join(directory, name))
		}
	}
	return nil
}

// archiveFiles are the files of the archive of a program. That of espalier also contains the API server of the platform,
// so that 'espalier up' and 'espalier demo' find it beside them.
func archiveFiles(o *options, b *built, all []*built, scripts map[string][]byte) ([]file, error) {
	files := []file{{b.file(b.program), 0o755, b.binary}}
	modules := b.modules
	for _, other := range all {
		if b.program == program && other.program == controlPlane && other.platform == b.platform {
			files = append(files, file{other.file(controlPlane), 0o755, other.binary})
			modules = union(modules, other.modules)
		}
	}
	files = append(files, file{"THIRD_PARTY_LICENSES", 0o644, licenceTexts(modules)})
	for _, name := range []string{"LICENSE", "README.md", "README.zh-CN.md"} {
		content, err := os.ReadFile(filepath.Join(o.root, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, 0o644, content})
	}
	if b.program != program {
		return files, nil
	}
	for name, script := range scripts {
		files = append(files, file{"completions/" + name, 0o644, script})
	}
	return files, nil
}

// addImage writes the image for the platforms that it supports, as an OCI layout and as an archive of
// it.
func addImage(o *options, all []*built, files map[string][]byte) error {
	var linux []*built
	for _, b := range all {
		if b.os == "linux" && b.program == awsProgram {
			linux = append(linux, b)
		}
	}
	if len(linux) == 0 {
		return nil
	}
	directory := filepath.Join(o.output, "image")
	digest, err := writeImage(o, linux, directory)
	if err != nil {
		return err
	}
	contents, err := filesOf(directory, "")
	if err != nil {
		return err
	}
	if files[program+"_"+o.version+"_image.tar"], err = tarOf(contents, o.date); err != nil {
		return err
	}
	files[program+"_"+o.version+"_image.digest"] = []byte(digest.String() + "\n")
	return nil
}

// filesOf reads the files of a directory, sorted, with their directories.
func filesOf(directory, prefix string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(directory, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(directory, name)
		files = append(files, file{path.Join(prefix, filepath.ToSlash(relative)), 0o644, content})
		return err
	})
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return withDirectories(files), err
}
