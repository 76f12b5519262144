"""A stand-in for ensurepip, which Debian has in python3-venv: copies pip into the new environment."""
import os, shutil, sys, sysconfig

shutil.copytree("/stand-in/pip", sysconfig.get_path("purelib"), dirs_exist_ok=True)
program = os.path.join(sys.prefix, "bin", "pip")
with open(program, "w") as file:
    file.write(f"#!{sys.executable}\nimport sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n")
os.chmod(program, 0o755)
