package xpkg

import (
	"archive/tar"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// runtimeUser is the user and the group of a program. Pods of packages run as it by default, and none may run as root.
const runtimeUser = "2000:2000"

// architectures are the names that images have for machines, by the names of ELF.
var architectures = map[elf.Machine]string{
	elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_PPC64: "ppc64le", elf.EM_S390: "s390x", elf.EM_RISCV: "riscv64", elf.EM_ARM: "arm",
}

// ProgramImage returns an image with nothing but a program for Linux, which it runs. The program must be linked statically. It is read again
// whenever the layer is.
func ProgramImage(program io.ReaderAt, size int64) (v1.Image, error) {
	platform, err := platformOf(program)
	if err != nil {
		return nil, err
	}
	layer, err := tarLayer(&tar.Header{Name: "runtime", Mode: 0o755, Size: size}, func() io.Reader { return io.NewSectionReader(program, 0, size) })
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Config = v1.Config{Entrypoint: []string{"/runtime"}, User: runtimeUser, WorkingDir: "/"}
	return mutate.ConfigFile(image, config)
}

func platformOf(program io.ReaderAt) (v1.Platform, error) {
	file, err := elf.NewFile(program)
	if err != nil {
		return v1.Platform{}, fmt.Errorf("it is not a program for Linux: %w", err)
	}
	out := v1.Platform{OS: "linux", Architecture: architectures[file.Machine]}
	switch {
	case file.Type != elf.ET_EXEC && file.Type != elf.ET_DYN:
		return out, errors.New("it is an object file or a core dump, not a program")
	case out.Architecture == "", file.Machine == elf.EM_PPC64 && file.ByteOrder == binary.BigEndian, file.Class == elf.ELFCLASS32 && file.Machine != elf.EM_ARM:
		return out, fmt.Errorf("there is no platform of images for its machine, %s", file.Machine)
	case slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }):
		return out, errors.New("it is linked dynamically, and nothing else is in the image; build it with CGO_ENABLED=0, or link it statically")
	}
	if out.Architecture == "arm" {
		out.Variant = "v7"
	}
	return out, nil
}
