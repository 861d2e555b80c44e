"""The index at the head of the log: each entry stands under the first subject whose words its title has."""

import re

SUBJECTS: dict[str, tuple[str, ...]] = {
    "Pictures": ("SAGAN", "REINFORCE", "distance by which"),
    "Few-shot learning and acting": ("SNAIL", "Omniglot", "Bandits"),
    "Pointing": ("pointer", "hulls"),
    "Memory": ("Turing", "bAbI", "LSTMN", "repeat copy"),
    "Kernels and speed": ("kernel", "GPU", "Threads", "float32", "Autograd", "training step"),
    "Translation": ("Multi30k", "Translators", "Alignments"),
    "Tests": ("tests",),
}
OTHER = "Other"


def index(log: str) -> str:
    """Links to all entries, by subject."""
    found: dict[str, list[str]] = {subject: [] for subject in (*SUBJECTS, OTHER)}
    for title in re.findall(r"^## (.+)$", log, re.MULTILINE):
        subject = next((s for s, words in SUBJECTS.items() if any(word in title for word in words)), OTHER)
        found[subject].append(f"  - [{title}](#{anchor(title)})")
    return "\n".join("\n".join([f"- {subject}", *links]) for subject, links in found.items() if links)


def anchor(title: str) -> str:
    """The address of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
