"""The view as a widget: the page's script in the browser, exact rows from this process."""

from typing import Any, ClassVar

import anywidget
import traitlets

from regard.notebook.view import View
from regard.tensor_bytes import as_bytes
from regard.web.bundle import bundle


class TraceWidget(anywidget.AnyWidget):  # type: ignore[misc]
    """Shows what the page shows; if a head is pooled there, the browser asks for its rows."""

    _esm: ClassVar[str] = f"{bundle('widget')}\nexport default {{ render: views.widget.render }};\n"
    data = traitlets.Dict().tag(sync=True)

    def __init__(self, view: View) -> None:
        super().__init__(data=view.data)
        self._layers = {layer.path: layer for layer in view.layers}
        self.on_msg(self._answer)

    def _answer(self, _: Any, asked: Any, buffers: Any) -> None:
        """{id, path, head, first, count} -> the weights of these queries, as float32."""
        number = asked.get("id") if isinstance(asked, dict) else None
        try:
            layer = self._layers[asked["path"]]
            head, first, count = (int(asked[name]) for name in ("head", "first", "count"))
            if not (0 <= head < layer.heads and 0 <= first < first + count <= layer.T):
                raise IndexError(f"head {head}, queries {first} to {first + count}")
            rows = layer.rows(first, first + count)[head]
        except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
            self.send({"id": number, "error": f"{type(error).__name__}: {error}"})
            return
        self.send({"id": number, "shape": list(rows.shape)}, buffers=[as_bytes(rows)])
