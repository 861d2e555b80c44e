"""How `regard show` draws an example, one file per kind of task.

A viewer is a function

    view(run, text, out, *, beam) -> the line that is printed

that draws one example into `out`: the one given by `text`, or one of the test set.
"""

VIEWERS = {  # by the name of a task's class, or of a base class
    "TranslationTask": "regard.views.alignment:view",
    "QuestionTask": "regard.views.hops:view",
    "LanguageTask": "regard.views.words:view",
    "SentenceTask": "regard.views.lookback:view",
    "PointingTask": "regard.views.points:view",
    "CaptionTask": "regard.views.captions:view",
    "RecallTask": "regard.views.lookback:view_pairs",
    "EntailmentTask": "regard.views.entailment:view",
    "BitTask": "regard.views.tape:view",
    "FewShotTask": "regard.views.episode:view",
    "BanditTask": "regard.views.acting:view",
    "MDPTask": "regard.views.acting:view",
    "PictureClassesTask": "regard.views.captions:view_class",
    "PictureTask": "regard.views.pictures:view",
}
