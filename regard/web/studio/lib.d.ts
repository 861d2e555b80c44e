// Types of lib.js for tsc; browsers do not read this file.
export function html(strings: TemplateStringsArray, ...values: any[]): any;
export function h(type: unknown, props: unknown, ...children: unknown[]): unknown;
export function render(tree: unknown, place: Element): void;
export function useCallback<F>(act: F, needs: unknown[]): F;
export function useEffect(act: () => void | (() => void), needs?: unknown[]): void;
export function useErrorBoundary(act?: (problem: any) => void): [any, () => void];
export function useLayoutEffect(act: () => void | (() => void), needs?: unknown[]): void;
export function useMemo<T>(make: () => T, needs: unknown[]): T;
export function useRef<T>(first: T): { current: T };
export function useState<T>(first: T | (() => T)): [T, (next: T | ((before: T) => T)) => void];
